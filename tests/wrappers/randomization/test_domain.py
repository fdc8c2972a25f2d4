"""Domain randomisation: what is drawn, that it acts, and that it comes back with the seed."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.randomization.known_envs import (
    CartPoleRandomization,
    DomainRandomization,
    LunarLanderRandomization,
    MountainCarRandomization,
    PendulumRandomization,
)

LUNAR = {
    "gravity": {"uniform": [-12, -4]},
    "wind_power": {"uniform": [0, 20]},
    "main_engine_power": {"normal": [13, 1], "clip": [10, 16]},
    "initial_x": {"uniform": [-0.5, 0.5]},
}
CARTPOLE = {"length": {"uniform": [0.3, 1]}, "masspole": {"log_uniform": [0.05, 0.5]}, "friction": {"uniform": [0, 1]}}
WRAPPED = {
    "CartPole-v1": (CartPoleRandomization, CARTPOLE),
    "LunarLander-v3": (LunarLanderRandomization, LUNAR),
    "LunarLanderContinuous-v3": (LunarLanderRandomization, LUNAR),
    "Pendulum-v1": (PendulumRandomization, {"g": {"uniform": [5, 15]}, "max_torque": {"uniform": [1, 2]}}),
    "MountainCar-v0": (MountainCarRandomization, {"force": {"uniform": [0.0005, 0.002]}}),
    "MountainCarContinuous-v0": (MountainCarRandomization, {"power": {"uniform": [0.001, 0.002]}}),
    "Acrobot-v1": (DomainRandomization, {"unwrapped.LINK_MASS_1": {"uniform": [0.5, 2]}}),
}
EACH = pytest.mark.parametrize("env_id", WRAPPED)


def make(env_id, parameters=None, **kwargs):
    cls, default = WRAPPED[env_id]
    return cls(gym.make(env_id, **kwargs), default if parameters is None else parameters)


def make_monitored(env_id):
    cls, parameters = WRAPPED[env_id]
    return cls(Monitor(gym.make(env_id)), parameters)


def play(env, n_steps, seed=None):
    """Observations and parameters of the steps."""
    env.action_space.seed(1)
    obs, info = env.reset(seed=seed)
    seen = [(obs, info["parameters"])]
    for _ in range(n_steps):
        obs, _, terminated, truncated, info = env.step(env.action_space.sample())
        seen.append((obs, info["parameters"]))
        if terminated or truncated:
            obs, info = env.reset()
            seen.append((obs, info["parameters"]))
    return np.array([obs for obs, _ in seen]), [parameters for _, parameters in seen]


@EACH
@pytest.mark.filterwarnings("ignore:.*")
def test_the_env_checkers_have_no_objection(env_id):
    check_gymnasium_env(make(env_id), skip_render_check=env_id != "CartPole-v1")
    check_sb3_env(make(env_id), skip_render_check=True)


@EACH
def test_a_seed_gives_the_same_episodes_and_parameters_again(env_id):
    first, second = play(make(env_id), 150, seed=3), play(make(env_id), 150, seed=3)
    assert (first[0] == second[0]).all() and first[1] == second[1]
    assert play(make(env_id), 1, seed=4)[1] != first[1][:2]


def test_every_episode_has_other_parameters_within_their_bounds():
    env = make("CartPole-v1")
    drawn = [env.reset(seed=0 if episode == 0 else None)[1]["parameters"] for episode in range(300)]
    lengths = np.array([parameters["length"] for parameters in drawn])
    assert len(set(lengths)) == 300 and 0.3 <= lengths.min() and lengths.max() <= 1
    assert lengths.mean() == pytest.approx(0.65, abs=0.05)
    assert np.corrcoef(lengths, [parameters["masspole"] for parameters in drawn])[0, 1] == pytest.approx(0, abs=0.15)


def test_without_a_seed_the_episodes_differ():
    assert make("CartPole-v1").reset()[1] != make("CartPole-v1").reset()[1]


def test_the_random_numbers_of_the_environment_stay_its_own():
    plain, randomised = gym.make("CartPole-v1"), make("CartPole-v1")
    assert (plain.reset(seed=5)[0] == randomised.reset(seed=5)[0]).all()
    assert (plain.reset()[0] == randomised.reset()[0]).all()


def test_a_parameter_that_is_added_does_not_change_the_others():
    envs = make("CartPole-v1", {"length": CARTPOLE["length"]}), make("CartPole-v1")
    for seed in (5, None, None):
        alone, together = (env.reset(seed=seed)[1]["parameters"]["length"] for env in envs)
        assert alone == together


def test_the_parameters_of_an_episode_are_in_each_info_and_reported_at_its_end():
    env = make("CartPole-v1")
    _, info = env.reset(seed=0)
    parameters = info["parameters"]
    terminated = False
    while not terminated:
        assert "ext_episode" not in info
        _, _, terminated, _, info = env.step(1)
        assert info["parameters"] == parameters
    assert info["ext_episode"] == {f"env/{name}": value for name, value in parameters.items()}


@EACH
def test_a_copy_goes_on_like_the_original(env_id):
    env = make(env_id)
    env.reset(seed=1)
    for copy in (pickle.loads(pickle.dumps(env)), cloudpickle.loads(cloudpickle.dumps(env))):
        assert copy.reset()[1]["parameters"] == pickle.loads(pickle.dumps(env)).reset()[1]["parameters"]


def test_the_spec_makes_it_again():
    env = gym.make(make("CartPole-v1").spec)
    assert isinstance(env, CartPoleRandomization) and env.reset(seed=3)[1] == make("CartPole-v1").reset(seed=3)[1]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3"])
def test_all_vectorised_environments_give_the_same(closing, env_id):
    def run(vec_env):
        vec_env.seed(7)
        observations = [vec_env.reset()]
        seen = [info["parameters"] for info in vec_env.reset_infos]
        for _ in range(120):
            obs, _, _, infos = vec_env.step(np.ones(3, dtype=np.int64))
            observations.append(obs)
            seen += [info["parameters"] for info in infos]
            seen += [info["ext_episode"] for info in infos if "ext_episode" in info]
        return np.array(observations), seen

    env_fns = [lambda: make_monitored(env_id)] * 3
    dummy = run(closing(DummyVecEnv(env_fns)))
    assert len({parameters["length" if env_id == "CartPole-v1" else "gravity"] for parameters in dummy[1][:3]}) == 3
    for vec_env in (SubprocVecEnv(env_fns, start_method="fork"), MulticoreVecEnv(env_fns, 2, start_method="fork")):
        observations, seen = run(closing(vec_env))
        assert (observations == dummy[0]).all() and seen == dummy[1]


def test_values_can_be_given_for_an_episode():
    env = make("CartPole-v1")
    expected = make("CartPole-v1").reset(seed=0)[1]["parameters"]
    _, info = env.reset(seed=0, options={"parameters": {"length": 0.4, "gravity": 5}, "low": -0.01, "high": 0.01})
    assert info["parameters"] == {**expected, "length": 0.4, "gravity": 5}
    assert env.unwrapped.length == 0.4 and env.unwrapped.gravity == 5
    assert abs(env.unwrapped.state).max() <= 0.01
    _, info = env.reset()
    assert info["parameters"]["length"] != 0.4 and info["parameters"]["gravity"] == 9.8 == env.unwrapped.gravity


def test_values_can_be_given_for_all_following_episodes():
    env = make("CartPole-v1")
    env.force_parameters({"length": 0.4})
    assert [env.reset()[1]["parameters"]["length"] for _ in range(3)] == [0.4] * 3
    assert env.reset(options={"parameters": {"length": 0.5}})[1]["parameters"]["length"] == 0.5
    env.force_parameters(None)
    assert env.reset()[1]["parameters"]["length"] != 0.4


def test_parameters_can_be_replaced():
    env = make("CartPole-v1")
    env.reset(seed=0)
    env.set_parameters({"gravity": 5})
    env.reset()
    assert env.unwrapped.gravity == 5 and env.unwrapped.length == 0.5


def test_schedules_follow_the_training_through_all_wrappers():
    inner = make("CartPole-v1", {"length": {"schedule": {"from": 0.5, "to": {"uniform": [0.1, 2]}}}})
    env = DomainRandomization(Monitor(inner), {"unwrapped.force_mag": {"schedule": {"from": 10, "to": 20}}})
    assert env.reset(seed=0)[1]["parameters"]["length"] != 0.5  # nobody has told: as at the end
    env.set_training_progress(0.0)
    assert env.reset()[1]["parameters"] == {"length": 0.5, "unwrapped.force_mag": 10}
    env.set_training_progress(0.5)
    assert env.reset()[1]["parameters"]["unwrapped.force_mag"] == 15
    lengths = [env.reset()[1]["parameters"]["length"] for _ in range(200)]
    assert 0.3 <= min(lengths) < 0.35 and 1.2 < max(lengths) <= 1.25
    with pytest.raises(ValueError, match="from 0 to 1"):
        env.set_training_progress(50)


class Machine(gym.Env):
    """Has numbers in several places, and sets one of them up anew at each reset."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.model = SimpleNamespace(gravity=np.array([0.0, 0.0, -9.8]), counts=np.array([1, 2]), size=(1, 2))
        self.settings = {"mode": "euler", "gains": [1.0, 2.0]}
        self.drag = 0.1
        self.parts = None

    @property
    def weight(self):
        return 9.8

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.drag = 0.1
        return self.model.gravity[2:].copy(), {}

    def step(self, action):
        return self.model.gravity[2:].copy(), 0.0, True, False, {}


def test_any_attribute_can_be_randomised_wherever_it_is():
    env = DomainRandomization(
        Monitor(Machine()),
        {
            "unwrapped.model.gravity.2": -5,
            "settings.mode": {"choice": ["semi-implicit"]},
            "settings.gains.1": 7,
            "drag": 0.3,
        },
    )
    obs, info = env.reset(seed=0)
    machine = env.unwrapped
    assert obs == -5 and machine.settings == {"mode": "semi-implicit", "gains": [1.0, 7.0]} and machine.drag == 0.3
    _, _, _, _, info = env.step(0)
    assert info["ext_episode"] == {"env/model.gravity.2": -5, "env/settings.gains.1": 7, "env/drag": 0.3}


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("unwrapped.modle", AttributeError, "did you mean 'model'"),
        ("drug", AttributeError, "did you mean 'drag'"),
        ("unwrapped.model.gravty", AttributeError, "did you mean 'gravity'"),
        ("unwrapped.settings.mod", AttributeError, "did you mean 'mode'"),
        ("model.gravity.3", AttributeError, "elements 0 to 2, but no '3'"),
        ("model.gravity.z", AttributeError, "elements 0 to 2, but no 'z'"),
        ("parts.mass", AttributeError, r"parts \(NoneType\) has no 'mass'"),
        ("model.gravity", ValueError, "one of its 3 elements, as in model.gravity.0"),
        ("model", ValueError, "not a number but SimpleNamespace"),
        ("model.size.0", ValueError, "can't be set to 1: 'tuple'"),
        ("unwrapped.weight", ValueError, "can't be set"),
        ("unwrapped..drag", ValueError, "not a path"),
    ],
)
def test_a_path_that_leads_nowhere_gets_an_error_with_the_nearest_name(path, error, message):
    with pytest.raises(error, match=message):
        DomainRandomization(Machine(), {path: 1.0})


def test_a_fraction_does_not_become_a_whole_number_unseen():
    env = DomainRandomization(Machine(), {"model.counts.0": {"choice": [3, 1.5]}})
    with pytest.raises(ValueError, match="array of int64"):
        env.reset(options={"parameters": {"model.counts.0": 1.5}})


@pytest.mark.parametrize(
    ("env_id", "parameters", "error", "message"),
    [
        ("LunarLander-v3", {"gravty": -10}, TypeError, "did you mean 'gravity'"),
        ("LunarLander-v3", {"gravity": {"uniform": [-15, -4]}}, ValueError, "gravity can't be -15"),
        ("LunarLander-v3", {"wind_power": {"normal": [5, 2]}}, ValueError, "Add clip"),
        ("LunarLander-v3", {"initial_x": 1.5}, ValueError, "initial_x can't be 1.5"),
        ("CartPole-v1", {"masspole": 0}, ValueError, "must be above 0"),
        ("CartPole-v1", {"length": {"unifrm": [0, 1]}}, ValueError, "did you mean 'uniform'"),
        ("CartPole-v1", ["length"], ValueError, "must map names to distributions"),
        ("Pendulum-v1", {"max_torque": {"uniform": [1, 3]}}, ValueError, "max_torque can't be 3"),
        ("MountainCarContinuous-v0", {"force": 0.001}, TypeError, "has no parameter 'force'"),
    ],
)
def test_wrong_names_and_ranges_get_a_clear_error(env_id, parameters, error, message):
    with pytest.raises(error, match=message):
        make(env_id, parameters)


def test_wrong_values_for_an_episode_get_a_clear_error():
    env = make("LunarLander-v3")
    with pytest.raises(ValueError, match="gravity can't be 3"):
        env.reset(options={"parameters": {"gravity": 3}})
    with pytest.raises(TypeError, match="did you mean 'wind_power'"):
        env.force_parameters({"wind_powr": 3})
    with pytest.raises(ValueError, match="map names to values"):
        env.force_parameters([3])
