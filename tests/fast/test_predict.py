"""While an agent is evaluated, it predicts on the fast path: the same actions, and nothing is left behind."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.runs.play.scoring import play

ACTIONS = (spaces.Discrete(3), spaces.MultiDiscrete([3, 4]), spaces.Box(-0.5, 0.5, (2,), np.float32))


class Dots(gym.Env):
    """Random observations, whatever is done."""

    def __init__(self, action_space, observation_space=None):
        self.action_space = action_space
        self.observation_space = observation_space or spaces.Box(-1, 1, (5,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("action_space", ACTIONS, ids=lambda space: type(space).__name__)
def test_the_actions_are_those_of_the_policy(action_space, deterministic):
    model = PPOExt("MlpPolicy", Dots(action_space), n_steps=64, batch_size=64, seed=0, device="cpu", learning_rate=0.01)
    model.learn(128)
    for n in (1, 5, 64):
        observations = np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)
        th.manual_seed(n)
        plain, _ = model.predict(observations, deterministic=deterministic)
        th.manual_seed(n)
        with model.predicting_fast():
            fast, _ = model.predict(observations, deterministic=deterministic)
        assert fast.dtype == plain.dtype
        np.testing.assert_allclose(fast, plain, atol=1e-6)


def test_one_hot_observations():
    model = A2CExt("MlpPolicy", Dots(spaces.Discrete(3), spaces.Discrete(6)), seed=0, device="cpu").learn(50)
    observations = np.arange(6)
    plain, _ = model.predict(observations, deterministic=True)
    with model.predicting_fast():
        assert model.predict(observations, deterministic=True)[0].tolist() == plain.tolist()


def test_nothing_is_left_behind_by_an_error():
    model = REINFORCE("MlpPolicy", "CartPole-v1", device="cpu")
    before = dict(vars(model.policy))
    with pytest.raises(KeyboardInterrupt), model.predicting_fast():
        assert "predict" in vars(model.policy)
        raise KeyboardInterrupt
    assert vars(model.policy).keys() == before.keys()
    model.policy.set_training_mode(True)
    assert model.policy.training


def test_a_policy_with_its_own_way_to_predict_keeps_it():
    class Lazy(ActorCriticPolicy):
        def _predict(self, observation, deterministic=False):
            return th.zeros(len(observation), dtype=th.int64)

    model = PPOExt(Lazy, "CartPole-v1", n_steps=64, batch_size=64, device="cpu")
    scores = play(model, model.get_env(), episodes=2)
    assert max(scores.lengths) < 15  # always to the left


def test_the_plain_path_is_told_by_training_and_not_by_an_evaluation(capsys):
    model = PPOExt(
        "MlpPolicy",
        "Pendulum-v1",
        n_steps=64,
        batch_size=64,
        policy_kwargs={"layer_norm": True},
        verbose=1,
        device="cpu",
    )
    play(model, model.get_env(), episodes=1)
    assert "plain path" not in capsys.readouterr().out
