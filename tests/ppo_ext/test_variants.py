"""The variants of PPO and A2C equal their originals with the extras off, and have the extras."""

import warnings

import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import A2CExt, MaskablePPOExt, RecurrentPPOExt
from sb3_ext.common.policies import LstmInOneCall, MlpLstmPolicy


class MaskedEnv(RandomEnv):
    """The first action is never possible, and an episode in which it is taken fails."""

    def action_masks(self):
        return [False, True, True]

    def step(self, action):
        assert action != 0
        return super().step(action)


def masked_env():
    return MaskedEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"])


VARIANTS = {
    RecurrentPPOExt: (RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", {"n_steps": 32, "batch_size": 16, "n_epochs": 2}),
    MaskablePPOExt: (MaskablePPO, "MlpPolicy", masked_env, {"n_steps": 32, "batch_size": 16, "n_epochs": 2}),
    A2CExt: (A2C, "MlpPolicy", "CartPole-v1", {"n_steps": 8, "gae_lambda": 0.9}),
}
WITH_KL = [RecurrentPPOExt, MaskablePPOExt]


def train(algorithm, variant, **kwargs):
    _, policy, env, settings = VARIANTS[variant]
    vec_env = make_vec_env(env, 2, seed=3)
    return algorithm(policy, vec_env, seed=3, device="cpu", **{**settings, **kwargs}).learn(256)


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_equal_those_of_the_original_after_several_updates(variant):
    ours, stock = train(variant, variant), train(VARIANTS[variant][0], variant)
    theirs = stock.policy.state_dict()
    for name, value in ours.policy.state_dict().items():
        th.testing.assert_close(value, theirs[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variant", WITH_KL)
def test_kl_stopping_works(variant):
    model = train(variant, variant, target_kl=1e-4, kl_stop_scope="epoch", kl_rollback=True, learning_rate=3e-3)
    assert model.kl_stops > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_saved_and_loaded(variant, tmp_path):
    model = train(variant, variant, ent_coef="lin_0.1", policy_kwargs={"activation_fn": "relu"})
    model.save(tmp_path / "model")
    loaded = variant.load(tmp_path / "model", device="cpu")
    saved = model.policy.state_dict()
    assert all(th.equal(value, saved[name]) for name, value in loaded.policy.state_dict().items())
    assert loaded.schedules == model.schedules


def test_a2c_writes_its_log_as_often_as_the_original(capsys):
    def tables(algorithm):
        algorithm("MlpPolicy", "CartPole-v1", seed=0, device="cpu", verbose=1).learn(1000)
        return capsys.readouterr().out.count("total_timesteps")

    assert tables(A2CExt) == tables(A2C) == 2


def test_playing_without_masks_gets_a_warning():
    model = MaskablePPOExt("MlpPolicy", make_vec_env(masked_env, 1), n_steps=16, batch_size=16, device="cpu")
    obs = model.env.reset()
    for arguments in ((obs,), (obs, None, None, True)):
        with pytest.warns(UserWarning, match="predicts without action masks"):
            model.predict(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(obs, action_masks=[False, True, False])[0] == 1
        assert model.predict(obs, None, None, True, [False, True, False])[0] == 1


def test_a2c_logs_the_divergence_of_its_updates():
    assert train(A2CExt, A2CExt).logger.name_to_value["train/approx_kl"] > 0


@pytest.mark.parametrize("late_start", [False, True])
def test_an_lstm_in_one_call_gives_the_values_and_gradients_of_sb3_contrib(late_start):
    model = RecurrentPPOExt("MlpLstmPolicy", make_vec_env("CartPole-v1", 4, seed=0), n_steps=32, seed=0, device="cpu")
    _, callback = model._setup_learn(1000)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    batch = next(model.rollout_buffer.get(64))
    starts = batch.episode_starts.reshape(batch.lstm_states.pi[0].shape[1], -1).clone()
    assert starts.shape[1] > 2 and starts[:, 0].any() and not starts[:, 1:].any()
    starts[0, 2] = float(late_start)  # no buffer of sb3-contrib has this

    def evaluate(policy_class):
        model.policy.zero_grad()
        actions = batch.actions.long().flatten()
        arguments = (batch.observations, actions, batch.lstm_states, starts.flatten())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MlpLstmPolicy, "_process_sequence", staticmethod(policy_class._process_sequence))
            values, log_prob, _ = model.policy.evaluate_actions(*arguments)
        (values.sum() + log_prob.sum()).backward()
        return values.detach(), log_prob.detach(), [parameter.grad.clone() for parameter in model.policy.parameters()]

    ours, original = evaluate(LstmInOneCall), evaluate(RecurrentActorCriticPolicy)
    th.testing.assert_close(ours, original, rtol=1e-5, atol=1e-6)
