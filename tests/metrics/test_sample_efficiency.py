"""Area under the score curve, and steps to a threshold."""

import math

import gymnasium as gym
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

from sb3_ext.common.env_spec import remember_spec, reward_threshold
from sb3_ext.metrics.sample_efficiency import SampleEfficiency
from sb3_ext.vec_env.cartpole import CartPoleVecEnv


def test_the_area_is_that_below_the_lines_between_the_scores():
    efficiency = SampleEfficiency()
    assert efficiency.add(100, 10.0)["rollout/score_auc"] == 10.0
    assert efficiency.add(200, 30.0)["rollout/score_auc"] == pytest.approx((100 * 10 + 100 * 20) / 200)
    metrics = efficiency.add(500, 0.0)
    assert metrics["rollout/score_auc"] == pytest.approx((100 * 10 + 100 * 20 + 300 * 15) / 500)
    assert metrics["rollout/score_best"] == 30.0


def test_a_training_that_goes_on_is_measured_from_where_it_went_on():
    efficiency = SampleEfficiency(start=10_000)
    efficiency.add(10_100, 10.0)
    assert efficiency.add(10_200, 20.0)["rollout/score_auc"] == pytest.approx((100 * 10 + 100 * 15) / 200)


def test_the_threshold_is_reached_once():
    efficiency = SampleEfficiency(threshold=20.0)
    assert "rollout/steps_to_threshold" not in efficiency.add(100, 19.9)
    assert efficiency.add(200, 20.0)["rollout/steps_to_threshold"] == 200
    assert efficiency.add(300, 5.0)["rollout/steps_to_threshold"] == 200


def test_a_score_that_is_not_a_number_is_left_out():
    efficiency = SampleEfficiency()
    assert efficiency.add(50, math.nan) == {}
    before = efficiency.add(100, 10.0)
    assert efficiency.add(200, math.nan) == before


@pytest.mark.parametrize(
    "make_env",
    [lambda: make_vec_env("CartPole-v1", 2), lambda: CartPoleVecEnv(2)],
    ids=["DummyVecEnv", "CartPoleVecEnv"],
)
def test_the_threshold_is_that_of_the_spec(make_env, closing):
    assert reward_threshold(closing(make_env())) == 475.0


def test_no_threshold_is_known_where_there_is_no_spec_or_it_has_none(closing):
    assert reward_threshold(closing(make_vec_env("Pendulum-v1"))) is None
    unregistered = gym.make("CartPole-v1").unwrapped
    unregistered.spec = None
    assert reward_threshold(closing(make_vec_env(lambda: unregistered))) is None


def test_processes_whose_spec_cannot_be_sent_are_not_asked(closing):
    def make_env():
        return gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda reward: reward)

    env = closing(make_vec_env(make_env, 1, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"}))
    assert reward_threshold(env) is None
    env.reset()  # the process is alive
    remember_spec(VecNormalize(env), gym.spec("CartPole-v1"))
    assert reward_threshold(env) == 475
