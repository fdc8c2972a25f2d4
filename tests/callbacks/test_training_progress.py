"""Environments are told how far training is, where they want to know."""

from __future__ import annotations

import gymnasium as gym
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sb3_ext import PPOExt
from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.randomization.known_envs import CartPoleRandomization
from sb3_ext.wrappers.training_link import tell_progress

TINY = {"device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [4]}}


class Listener(gym.Wrapper):
    """Remembers what it is told, and does not hand it on."""

    def __init__(self, env):
        super().__init__(env)
        self.told = []

    def set_training_progress(self, progress):
        self.told.append(progress)


def listening():
    return Listener(gym.make("CartPole-v1"))


def plain():
    return gym.make("CartPole-v1")


def widening():
    length = {"schedule": {"from": 0.5, "to": {"uniform": [0.1, 1]}}}
    return CartPoleRandomization(gym.make("CartPole-v1"), {"length": length})


def vec_envs(env_fns):
    return {
        "dummy": lambda: DummyVecEnv(env_fns),
        "subproc": lambda: SubprocVecEnv(env_fns, start_method="fork"),
        "multicore": lambda: MulticoreVecEnv(env_fns, n_workers=2, start_method="fork"),
        "normalised": lambda: VecNormalize(DummyVecEnv(env_fns)),
    }


KINDS = pytest.mark.parametrize("kind", vec_envs([]))


def learn(env, n_steps=64, algorithm=PPO, n_rollout=8, **kwargs):
    callback = TrainingProgress()
    model = algorithm("MlpPolicy", env, n_steps=n_rollout, batch_size=8, n_epochs=1, **TINY)
    model.learn(n_steps, callback=callback, **kwargs)
    return model


@KINDS
def test_each_rollout_starts_with_the_progress_of_training(kind, closing):
    env = closing(vec_envs([listening, listening])[kind]())
    learn(env)
    assert env.get_attr("told") == [[0.0, 0.25, 0.5, 0.75]] * 2


@KINDS
def test_only_the_environments_that_want_to_know_are_told(kind, closing):
    env = closing(vec_envs([plain, listening, plain])[kind]())
    learn(env, n_steps=48)
    assert env.get_attr("told", indices=[1]) == [[0.0, 0.5]]


@pytest.mark.parametrize("make_env", [lambda: make_vec_env("CartPole-v1", 2), lambda: CartPoleVecEnv(2)])
def test_where_none_wants_to_know_nothing_is_asked_again(make_env, closing, monkeypatch):
    env = closing(make_env())
    calls = []
    monkeypatch.setattr(env, "env_method", lambda *args, **kwargs: calls.append(args))
    monkeypatch.setattr(env, "env_is_wrapped", lambda *args, **kwargs: calls.append(args) or [False, False])
    callback = TrainingProgress()
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, **TINY)
    calls.clear()
    model.learn(64, callback=callback)
    assert len(calls) == 1


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
def test_schedules_of_randomised_environments_follow(algorithm, closing):
    env = closing(DummyVecEnv([widening]))
    learn(env, n_steps=32, algorithm=algorithm)
    assert env.get_attr("training_progress") == [0.75]


def test_the_first_episodes_can_be_told_before_training_begins(closing):
    env = closing(DummyVecEnv([widening, plain, widening]))
    tell_progress(env, 0.0)
    env.seed(0)
    env.reset()
    assert [info.get("parameters") for info in env.reset_infos] == [{"length": 0.5}, None, {"length": 0.5}]


def test_a_training_that_goes_on_tells_its_whole_length(closing):
    env = closing(DummyVecEnv([listening]))
    model = learn(env, n_steps=16)
    model.learn(16, callback=TrainingProgress(), reset_num_timesteps=False)
    assert env.get_attr("told") == [[0.0, 0.5, 0.5, 0.75]]


def test_an_algorithm_with_a_rollout_each_step_tells_only_what_has_changed(closing):
    env = closing(DummyVecEnv([listening]))
    model = DQN("MlpPolicy", env, learning_starts=10_000, train_freq=1, buffer_size=10, **TINY)
    model.learn(5000, callback=TrainingProgress())
    (told,) = env.get_attr("told")
    assert 800 <= len(told) <= 1001 and told == sorted(told) and told[0] == 0 and told[-1] > 0.998
