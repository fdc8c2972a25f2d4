"""Domain randomisation of Gymnasium's environments: the parameters do what their names say."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.box2d import lunar_lander

from sb3_ext.wrappers.randomization import CartPoleRandomization, LunarLanderRandomization
from sb3_ext.zoo.vec_envs import EnvConfig, choose_native


def make_cartpole(parameters):
    return CartPoleRandomization(gym.make("CartPole-v1"), parameters)


def make_lander(parameters, **kwargs):
    return LunarLanderRandomization(gym.make("LunarLander-v3", **kwargs), parameters)


def test_a_named_class_says_what_it_is_made_for():
    with pytest.raises(ValueError, match="made for LunarLander, not for <CartPoleEnv"):
        LunarLanderRandomization(gym.make("CartPole-v1"), {})


def test_what_follows_from_the_masses_of_a_cartpole_is_kept_right():
    env = make_cartpole({"masscart": 2, "masspole": 0.5, "length": 0.8})
    env.reset()
    assert env.unwrapped.total_mass == 2.5 and env.unwrapped.polemass_length == 0.4


@pytest.mark.parametrize("action", [0, 1])
def test_friction_of_a_cartpole_is_a_force_against_its_velocity(action):
    env = make_cartpole({"friction": 0.5})
    env.reset(seed=0)
    cartpole = env.unwrapped
    cartpole.state = _, v, theta, omega = np.array([0.1, 1.5, 0.05, -0.3])
    (_, v_next, _, omega_next), *_ = env.step(action)
    # Newton for cart and pole, with the accelerations that the step gave
    a, alpha = (v_next - v) / cartpole.tau, (omega_next - omega) / cartpole.tau
    force = (10 if action == 1 else -10) - 0.5 * v
    inertia = cartpole.polemass_length * (alpha * math.cos(theta) - omega**2 * math.sin(theta))
    assert cartpole.total_mass * a + inertia == pytest.approx(force, abs=1e-3)
    assert cartpole.force_mag == 10


def test_the_native_cartpole_is_only_used_without_wrappers():
    plain = EnvConfig("CartPole-v1", {}, None, None, None, None, {})
    assert choose_native(plain, None) is not None
    wrapper = [{"sb3_ext.wrappers.randomization.CartPoleRandomization": {"parameters": {"length": 1}}}]
    assert choose_native(plain._replace(env_wrapper=wrapper), None) is None


def lunar_path(parameters, actions=(0,) * 20, seed=2, **kwargs):
    env = make_lander(parameters, **kwargs)
    observations = [env.reset(seed=seed)[0]]
    rewards = []
    for action in actions:
        obs, reward, *_ = env.step(action)
        observations.append(obs)
        rewards.append(float(reward))
    return np.array(observations), np.array(rewards)


def test_a_lander_falls_with_the_gravity_that_was_drawn():
    speeds = {gravity: lunar_path({"gravity": gravity})[0][:, 3] for gravity in (-4, -10)}
    fall = {gravity: speed[-1] - speed[0] for gravity, speed in speeds.items()}
    assert fall[-4] / fall[-10] == pytest.approx(0.4, rel=0.01)
    assert (lunar_path({"gravity": -4})[0] == lunar_path({}, gravity=-4.0)[0]).all()


@pytest.mark.parametrize(
    ("parameters", "kwargs"),
    [
        ({"wind_power": 0}, {}),
        ({"wind_power": 12}, {"enable_wind": True, "wind_power": 12.0, "turbulence_power": 0.0}),
        ({"turbulence_power": 2}, {"enable_wind": True, "wind_power": 0.0, "turbulence_power": 2.0}),
    ],
)
def test_wind_is_there_when_it_was_drawn_and_nothing_else_is(parameters, kwargs):
    assert (lunar_path(parameters)[0] == lunar_path({}, **kwargs)[0]).all()


def test_wind_of_the_environment_itself_stays():
    expected = lunar_path({}, enable_wind=True, gravity=-5.0)
    assert (lunar_path({"gravity": -5}, enable_wind=True)[0] == expected[0]).all()
    expected = lunar_path({}, enable_wind=True, wind_power=3.0)
    assert (lunar_path({"wind_power": 3}, enable_wind=True)[0] == expected[0]).all()


def test_the_engines_of_each_lander_are_its_own():
    constants = lunar_lander.MAIN_ENGINE_POWER, lunar_lander.SIDE_ENGINE_POWER, lunar_lander.INITIAL_RANDOM

    def thrust(env):
        before = env.unwrapped.lander.linearVelocity.y
        env.step(2)
        return env.unwrapped.lander.linearVelocity.y - before

    envs = [make_lander({"main_engine_power": power}) for power in (0, 13, 26)]
    for env in envs:
        env.reset(seed=2)
    gains = [thrust(env) for env in envs]
    assert gains[2] - gains[1] == pytest.approx(gains[1] - gains[0], rel=0.01) and gains[1] > gains[0]
    assert constants == (lunar_lander.MAIN_ENGINE_POWER, lunar_lander.SIDE_ENGINE_POWER, lunar_lander.INITIAL_RANDOM)


def test_the_side_engines_turn_a_lander_as_much_as_was_drawn():
    turn = {power: lunar_path({"side_engine_power": power}, [1] * 5)[0][-1, 5] for power in (0.0, 0.6, 1.2)}
    assert turn[1.2] - turn[0.6] == pytest.approx(turn[0.6] - turn[0.0], rel=0.2)


def test_a_lander_without_an_initial_force_starts_at_rest():
    assert abs(lunar_path({"initial_force": 0})[0][0, 2]) < 0.02 < abs(lunar_path({})[0][0, 2])


def test_a_lander_can_start_beside_the_pad_and_gets_its_rewards_from_there():
    (plain, _), (shifted, rewards) = lunar_path({}), lunar_path({"initial_x": 0.4})
    assert shifted[:, 0] - plain[:, 0] == pytest.approx(0.4, abs=1e-3)
    assert shifted[:, 1:] == pytest.approx(plain[:, 1:], abs=1e-3)
    x, y, vx, vy, angle = shifted[:, :5].T.astype(np.float64)
    shaping = -100 * (np.hypot(x, y) + np.hypot(vx, vy) + abs(angle))
    assert rewards == pytest.approx(np.diff(shaping), abs=1e-3)


def test_the_start_of_a_lander_needs_its_own_observations():
    env = gym.wrappers.FlattenObservation(gym.wrappers.TimeAwareObservation(gym.make("LunarLander-v3")))
    with pytest.raises(ValueError, match="first in env_wrapper"):
        LunarLanderRandomization(env, {"initial_x": 0.1})
