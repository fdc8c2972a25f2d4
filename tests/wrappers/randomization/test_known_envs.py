"""Domain randomisation of Gymnasium's environments: the parameters do what their names say."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.box2d import lunar_lander

from sb3_ext.vec_env.choose import EnvConfig, choose_native
from sb3_ext.wrappers.randomization.known_envs import (
    CartPoleRandomization,
    LunarLanderRandomization,
    MountainCarRandomization,
    PendulumRandomization,
    randomization_for,
)


def make_cartpole(parameters):
    return CartPoleRandomization(gym.make("CartPole-v1"), parameters)


def make_lander(parameters, **kwargs):
    return LunarLanderRandomization(gym.make("LunarLander-v3", **kwargs), parameters)


def test_a_named_class_says_what_it_is_made_for():
    with pytest.raises(ValueError, match="for LunarLander, not for <CartPoleEnv"):
        LunarLanderRandomization(gym.make("CartPole-v1"), {})


#: Of each parameter the values at the ends of what it may be, and some that it may not be
LIMITS = {
    "LunarLander-v3": (
        LunarLanderRandomization,
        {
            "gravity": ([-12, 0], [-12.1, 0.1]),
            "wind_power": ([0, 1000], [-0.1]),
            "turbulence_power": ([0, 1000], [-0.1]),
            "main_engine_power": ([0, 1000], [-0.1]),
            "side_engine_power": ([0, 1000], [-0.1]),
            "initial_x": ([-0.9, 0.9], [-0.91, 0.91]),
            "initial_force": ([0, 10000], [-0.1]),
        },
    ),
    "CartPole-v1": (
        CartPoleRandomization,
        {
            "gravity": ([0, 1000], [-0.1]),
            "masscart": ([0.001, 1000], [0]),
            "masspole": ([0.001, 1000], [0]),
            "length": ([0.001, 1000], [0]),
            "force_mag": ([0.001, 1000], [0]),
            "tau": ([0.001, 1000], [0]),
            "friction": ([0, 1000], [-0.1]),
        },
    ),
    "Pendulum-v1": (
        PendulumRandomization,
        {
            "g": ([0, 1000], [-0.1]),
            "m": ([0.001, 1000], [0]),
            "l": ([0.001, 1000], [0]),
            "max_torque": ([0.001, 2], [0, 2.1]),
            "max_speed": ([0.001, 8], [0, 8.1]),
            "dt": ([0.001, 1000], [0]),
        },
    ),
    "MountainCar-v0": (
        MountainCarRandomization,
        {
            "force": ([0.0001, 10], [0]),
            "gravity": ([0, 10], [-0.1]),
            "goal_position": ([-0.4, 0.6], [-0.41, 0.61]),
            "goal_velocity": ([0, 0.07], [-0.01, 0.08]),
            "max_speed": ([0.0001, 0.07], [0, 0.08]),
        },
    ),
    "MountainCarContinuous-v0": (MountainCarRandomization, {"power": ([0.0001, 10], [0])}),
}


@pytest.mark.parametrize(
    ("env_id", "name", "possible", "impossible"),
    [(env_id, name, *values) for env_id, (_, limits) in LIMITS.items() for name, values in limits.items()],
)
def test_a_parameter_may_be_what_makes_sense_for_it(env_id, name, possible, impossible):
    wrap = LIMITS[env_id][0]
    for value in possible:
        wrap(gym.make(env_id), {name: value})
    for value in impossible:
        with pytest.raises(ValueError, match=f"{name} can't be"):
            wrap(gym.make(env_id), {name: value})


@pytest.mark.parametrize("env_id", LIMITS)
def test_the_class_for_an_environment_knows_its_parameters(env_id):
    wrap = randomization_for(gym.make(env_id))
    assert wrap is LIMITS[env_id][0]
    assert set(wrap.ranges) == {name for cls, limits in LIMITS.values() if cls is wrap for name in limits}


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
    wrapper = [{"sb3_ext.wrappers.CartPoleRandomization": {"parameters": {"length": 1}}}]
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
