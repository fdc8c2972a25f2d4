"""REINFORCE: its gradient, its options, and that it learns."""

import warnings

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_ext import REINFORCE
from sb3_ext.reinforce import reinforce
from sb3_ext.reinforce.loss import reinforce_loss


def make(env="CartPole-v1", n_envs=2, **kwargs):
    return REINFORCE(
        "MlpPolicy", make_vec_env(env, n_envs, seed=0), **{"seed": 0, "device": "cpu", "n_steps": 32, **kwargs}
    )


def collect(model):
    """Collect one rollout into the model's buffer, without an update."""
    _, callback = model._setup_learn(1000)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return model.rollout_buffer


def test_the_gradient_is_that_of_the_textbook():
    model = make(baseline="none", normalize_returns="off", max_grad_norm=1e9)
    buffer = collect(model)
    (batch,) = buffer.get()
    _, log_prob, _ = model.policy.evaluate_actions(batch.observations, batch.actions.long().flatten())
    model.policy.zero_grad()
    (-(log_prob * batch.returns).mean()).backward()
    expected = model.policy.action_net.weight.grad.clone()

    model.train()
    th.testing.assert_close(model.policy.action_net.weight.grad, expected)


@pytest.mark.parametrize("baseline", ["none", "mean", "value"])
def test_the_baseline_is_subtracted(baseline):
    model = make(baseline=baseline, normalize_returns="off")
    buffer = collect(model)
    expected = {"none": 0.0, "mean": buffer.returns.mean(), "value": buffer.values}[baseline]
    np.testing.assert_allclose(model._subtract_baseline(), buffer.returns - expected, rtol=1e-6)


def test_returns_are_normalised_over_the_rollout():
    model = make(normalize_returns="rollout")
    collect(model)
    advantages = model._subtract_baseline()
    assert advantages.mean() == pytest.approx(0, abs=1e-5)
    assert advantages.std(ddof=1) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("normalize_returns", ["off", "batch", "rollout"])
def test_the_steps_are_made_with_returns_normalised_as_asked(normalize_returns, monkeypatch):
    seen = []

    def recorded_loss(output, batch, *args):
        seen.append(batch.advantages)
        return reinforce_loss(output, batch, *args)

    monkeypatch.setattr(reinforce, "reinforce_loss", recorded_loss)
    env = make_vec_env("CartPole-v1", 2, seed=0)
    options = {"n_steps": 64, "batch_size": 16, "baseline": "none", "normalize_returns": normalize_returns}
    model = REINFORCE("MlpPolicy", env, seed=0, device="cpu", fast=False, **options).learn(128)
    advantages = th.cat(seen)
    assert len(seen) > 3
    assert model.policy.training
    if normalize_returns == "off":
        assert sorted(advantages.tolist()) == pytest.approx(sorted(model.rollout_buffer.returns.tolist()))
        return
    for part in seen if normalize_returns == "batch" else [advantages]:
        assert part.mean().item() == pytest.approx(0, abs=1e-5)
        assert part.std().item() == pytest.approx(1, abs=1e-4)
    if normalize_returns == "rollout":
        assert max(abs(part.mean().item()) for part in seen) > 0.01


@pytest.mark.parametrize("length", [4, 10**6], ids=["terminates_there_too", "goes_on"])
def test_a_time_limit_is_bootstrapped_from_the_value_function_unless_the_episode_ends_there(length):
    class Ending(RandomEnv):
        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, terminated or truncated, False, info

    def env():
        return TimeLimit(Ending(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"], length=length), 4)

    model = make(env, n_envs=1, n_steps=4, gamma=0.5)
    with th.no_grad():
        model.policy.value_net.weight.zero_()
        model.policy.value_net.bias.fill_(100.0)
    buffer = collect(model)
    assert buffer.n_samples == 4
    assert buffer.returns[-1] == pytest.approx(buffer.rewards[-1])
    # 0.5 x 100, and a reward of order 1
    assert buffer.returns[-1] == pytest.approx(50 if length > 4 else 0, abs=10)


def test_without_a_value_function_nothing_is_bootstrapped():
    model = make(vf_coef=0.0, baseline="mean")
    model.learn(256)
    obs = th.as_tensor(model.env.reset())
    assert th.all(model.policy.predict_values(obs) == 0)
    assert "train/explained_variance" not in model.logger.name_to_value


def test_a_large_value_gradient_does_not_shrink_the_policys():
    model = make(baseline="none", normalize_returns="off")
    model.learn(64)
    logged = model.logger.name_to_value
    assert logged["train/grad_norm_critic"] > 10 * logged["train/grad_norm_actor"]
    norm = th.stack([p.grad.norm() for n, p in model.policy.named_parameters() if "value_net" not in n]).norm()
    assert norm == pytest.approx(min(logged["train/grad_norm_actor"], 0.5), rel=0.01)


def test_steps_of_an_older_policy_are_weighted_by_the_importance_ratio():
    model = make(n_steps=8, learning_rate=0.05)
    weights = []
    for _ in range(6):
        model.learn(16, reset_num_timesteps=False)
        weights.append(model.logger.name_to_value.get("train/importance_weight", 1.0))
    assert min(weights) < 0.999
    assert max(weights) <= 1.0


def test_the_divergence_from_the_data_is_logged():
    model = make(learning_rate=0.01)
    model.learn(64)
    assert model.logger.name_to_value["train/approx_kl"] > 1e-6


@pytest.mark.parametrize("fast", [True, False])
def test_what_is_logged_of_an_update(fast):
    def env():
        return RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Box"])

    model = make(env, fast=fast, ent_coef=0.1, vf_coef=0.3)
    model.learn(64)
    logged, buffer = model.logger.name_to_value, model.rollout_buffer
    assert logged["train/std"] == pytest.approx(th.exp(model.policy.log_std).mean().item())
    assert logged["train/explained_variance"] == pytest.approx(
        1 - np.var(buffer.returns - buffer.values) / np.var(buffer.returns), rel=1e-4
    )
    assert logged["train/loss"] == pytest.approx(
        logged["train/policy_gradient_loss"] + 0.1 * logged["train/entropy_loss"] + 0.3 * logged["train/value_loss"],
        rel=1e-4,
    )
    assert logged["train/entropy_loss"] == pytest.approx(-2 * (0.5 + 0.5 * np.log(2 * np.pi)), rel=1e-4)
    assert logged["rollout/episodes"] == 2 * (32 // 7)
    assert logged["rollout/steps_waiting"] == 2 * (32 % 7)
    assert logged["train/n_updates"] == 1


def test_a_distribution_without_an_entropy_is_learned_too():
    model = make("Pendulum-v1", n_envs=1, n_steps=200, use_sde=True, policy_kwargs={"squash_output": True})
    model.learn(200)
    buffer = model.rollout_buffer
    entropy_loss = model.logger.name_to_value["train/entropy_loss"]
    assert entropy_loss == pytest.approx(np.mean(buffer.log_probs), rel=1e-3), "minus the mean of -log_prob"


def test_a_rollout_without_a_finished_episode_changes_nothing_and_loses_nothing():
    model = make("Pendulum-v1", n_envs=1, n_steps=50)
    parameters = [p.clone() for p in model.policy.parameters()]
    model.learn(50)
    assert model.logger.name_to_value["rollout/steps_waiting"] == 50
    assert all(th.equal(a, b) for a, b in zip(parameters, model.policy.parameters(), strict=True))
    model.learn(150, reset_num_timesteps=False)
    assert model.logger.name_to_value["rollout/steps_waiting"] == 0
    assert model._n_updates == 1


@pytest.mark.parametrize(("n_rollouts", "n_warnings"), [(49, 0), (50, 1), (60, 1)])
def test_episodes_that_never_end_get_one_warning_that_says_what_to_do(n_rollouts, n_warnings):
    def env():
        return RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"], length=10**6)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(env, n_envs=2, n_steps=2).learn(4 * n_rollouts)
    assert sum("set max_episode_steps" in str(warning.message) for warning in caught) == n_warnings


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"baseline": "valeu"}, "did you mean 'value'"),
        ({"normalize_returns": "rollouts"}, "did you mean 'rollout'"),
        ({"batch_size": 1}, "at least 2"),
        ({"max_episode_steps": 0}, "max_episode_steps=0 must be a whole number, at least 1"),
        ({"vf_coef": 0.0}, "vf_coef=0 trains none"),
        ({"vf_coef": 0.0, "baseline": "mean", "max_episode_steps": 9}, "vf_coef=0 trains none"),
    ],
)
def test_bad_options_get_an_error_that_says_what_to_do(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(**kwargs)


def test_what_yaml_makes_of_off_and_null_is_read_as_meant():
    model = make(normalize_returns=False, baseline=None)
    assert (model.normalize_returns, model.baseline) == ("off", "none")


def test_it_learns_to_balance():
    model = REINFORCE("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=1), 4e-3, n_steps=128, seed=1, device="cpu")
    model.learn(30_000)
    score, _ = evaluate_policy(model, make_vec_env("CartPole-v1", 4, seed=9), 20)
    assert score > 150, "a random policy has 20"
