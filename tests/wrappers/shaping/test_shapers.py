"""Each shaper's terms say what their names do, in the environments they are for."""

import inspect
import math
import pickle
import re
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import sb3_ext.envs  # registers Pong-v5
import sb3_ext.wrappers
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.shaping.count_bonus import CountBonus
from sb3_ext.wrappers.shaping.generic import InfoTerms, TimePenalty
from sb3_ext.wrappers.shaping.known_envs import (
    AcrobotPotential,
    AcrobotShaping,
    CartPoleShaping,
    MountainCarPotential,
    MountainCarShaping,
    PongShaping,
    TaxiPotential,
    TaxiShaping,
    steps_to_go,
)
from sb3_ext.wrappers.training_link import link_to_training

#: Shapers with all their terms, and an environment each is for
SHAPERS = {
    "CartPole": (CartPoleShaping, "CartPole-v1", {"terms": {"centring": 0.1, "angle": 0.1}}),
    "MountainCar": (MountainCarShaping, "MountainCar-v0", {"terms": {"height": 0.5, "velocity": 0.5}}),
    "MountainCarContinuous": (MountainCarShaping, "MountainCarContinuous-v0", {"terms": {"height": 1, "velocity": 1}}),
    "MountainCarPotential": (MountainCarPotential, "MountainCar-v0", {"gamma": 0.99}),
    "Acrobot": (AcrobotShaping, "Acrobot-v1", {}),
    "AcrobotPotential": (AcrobotPotential, "Acrobot-v1", {"gamma": 0.99}),
    "Taxi": (TaxiShaping, "Taxi-v4", {}),
    "TaxiPotential": (TaxiPotential, "Taxi-v4", {"gamma": 0.99}),
    "Pong": (PongShaping, "Pong-v5", {"terms": {"near_ball": 0.01, "hit": 1.0}}),
    "LunarLander": (TimePenalty, "LunarLander-v3", {"after": 2}),
    "info": (InfoTerms, "Taxi-v4", {"terms": {"prob": 1.0}}),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*different from the unwrapped version"),
    pytest.mark.filterwarnings("ignore:.*was seeded with"),
]


def make(name):
    shaper, env_id, kwargs = SHAPERS[name]
    return shaper(gym.make(env_id, **({"obs_type": "ram"} if name == "Pong" else {})), **kwargs)


def play(env, n_steps=30, seed=3):
    """Rewards of random actions, over several episodes where they are short."""
    env.action_space.seed(seed)
    env.reset(seed=seed)
    rewards = []
    for _ in range(n_steps):
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards.append(reward)
        if terminated or truncated:
            env.reset()
    return rewards


@pytest.mark.parametrize("name", SHAPERS)
def test_checkers_find_nothing_wrong(name):
    env = make(name)
    check_gymnasium_env(env, skip_render_check=True)
    check_sb3_env(env)


@pytest.mark.parametrize("name", SHAPERS)
def test_a_seed_reproduces_the_rewards_and_shaping_changes_them(name):
    rewards = play(make(name))
    assert rewards == play(make(name))
    if name != "Pong":  # its ball comes later
        assert rewards != play(gym.make(SHAPERS[name][1]))


@pytest.mark.parametrize("name", [name for name in SHAPERS if name not in ("Pong", "LunarLander")])
def test_shapers_can_be_pickled(name):
    env = make(name)
    assert play(pickle.loads(pickle.dumps(env))) == play(env)


@pytest.mark.parametrize("name", ["MountainCarPotential", "Taxi"])
@pytest.mark.parametrize("vec_env_cls", [SubprocVecEnv, MulticoreVecEnv])
def test_processes_give_the_rewards_of_one_process(name, vec_env_cls, closing):
    shaper, env_id, kwargs = SHAPERS[name]
    rewards = []
    for cls, options in ((DummyVecEnv, {}), (vec_env_cls, {"start_method": "fork"})):
        env = closing(
            make_vec_env(
                env_id,
                2,
                seed=0,
                wrapper_class=shaper,
                wrapper_kwargs=kwargs,
                vec_env_cls=cls,
                vec_env_kwargs=options,
            )
        )
        env.reset()
        rewards.append([env.step(np.array([step % 3, 2]))[1] for step in range(20)])
    assert rewards[0] == pytest.approx(np.array(rewards[1]))


@pytest.mark.parametrize("shaper", [CartPoleShaping, MountainCarShaping, AcrobotShaping, TaxiShaping, PongShaping])
def test_a_shaper_refuses_other_environments(shaper):
    with pytest.raises(ValueError, match=f"{shaper.__name__} is for .*Pendulum"):
        shaper(gym.make("Pendulum-v1"))


def value(env, state, action=0):
    """What is added to the reward of a step to about this state."""
    env.reset(seed=0)
    env.unwrapped.state = np.array(state)
    _, reward, *_ = env.step(action)
    return reward


@pytest.mark.parametrize(
    ("term", "state", "expected"),
    [
        ("centring", (0, 0, 0, 0), 0),
        ("centring", (1.2, 0, 0, 0), -0.5),
        ("centring", (-2.4, 0, 0.1, 0), -1),
        ("angle", (1, 0, 0, 0), 0),
        ("angle", (0, 0, math.radians(-6), 0), -0.5),
    ],
)
def test_cartpole_is_best_in_the_middle_and_upright(term, state, expected):
    env = CartPoleShaping(gym.make("CartPole-v1"), {"reward": 0, term: 1})
    assert value(env, state) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("env_id", "action"), [("MountainCar-v0", 1), ("MountainCarContinuous-v0", np.zeros(1))])
@pytest.mark.parametrize(
    ("term", "state", "expected"),
    [
        ("height", (-math.pi / 6, 0), 0),
        ("height", (0, 0), 0.5),
        ("height", (0.49, 0), 1),
        ("velocity", (-0.5, -0.035), 0.5),
        ("velocity", (-0.5, 0), 0),
    ],
)
def test_mountain_car_earns_with_height_and_speed(env_id, action, term, state, expected):
    env = MountainCarShaping(gym.make(env_id), {"reward": 0, term: 1})
    assert value(env, state, action) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("state", "height"), [((0, 0, 0, 0), 0), ((math.pi, 0, 0, 0), 1), ((0, math.pi, 0, 0), 0.5)])
def test_acrobot_earns_with_the_height_of_its_tip(state, height):
    env = AcrobotShaping(gym.make("Acrobot-v1"), {"reward": 0, "height": 1})
    assert value(env, state, action=1) == pytest.approx(height, abs=0.02)


def test_a_potential_tells_only_of_changes():
    gamma = 0.99
    env = MountainCarPotential(gym.make("MountainCar-v0"), {"reward": 0, "height": 1.0}, gamma=gamma)
    observation, _ = env.reset(seed=0)
    heights = [observation]
    rewards = []
    for _ in range(50):
        observation, reward, *_ = env.step(2)
        heights.append(observation)
        rewards.append(reward)
    heights = 0.5 + 0.5 * np.sin(3 * np.array(heights)[:, 0])
    assert rewards == pytest.approx(gamma * heights[1:] - heights[:-1], abs=1e-5)


def test_taxi_knows_the_fewest_steps_to_the_goal():
    taxi = gym.make("Taxi-v4").unwrapped
    steps = steps_to_go(taxi)
    # Breadth-first search over the environment's own transitions, backwards from what ends an episode
    best = np.full(500, 999)
    for _ in range(40):
        for state, actions in taxi.P.items():
            ways = [1 if ended else 1 + best[after] for ((_, after, _, ended),) in actions.values()]
            best[state] = min(best[state], *ways)
    undelivered = [s for s in range(500) if len(set(list(taxi.decode(s))[2:])) == 2]
    assert (steps[undelivered] == best[undelivered]).all()


def test_taxi_is_paid_for_the_right_direction():
    env = TaxiPotential(gym.make("Taxi-v4"), {"reward": 0, "distance": 20}, gamma=1.0)
    env.reset(seed=0)
    steps = steps_to_go(env.unwrapped)
    for action in (0, 1, 2, 3, 4) * 4:
        before = steps[env.unwrapped.s]
        _, reward, *_ = env.step(action)
        assert reward == pytest.approx(20 / steps.max() * (before - steps[env.unwrapped.s]))


@pytest.mark.parametrize(("skips", "sent_back"), [(False, 3), (True, 2)])
def test_pong_pays_for_each_ball_that_is_sent_back(skips, sent_back):
    # With four frames a step, the ball can come and go within one
    game = gym.make("Pong-v5", repeat_action_probability=0.0)
    game = AtariWrapper(game, noop_max=0) if skips else game
    env = PongShaping(game, {"reward": 0, "hit": 1.0, "near_ball": 1e-3})
    env.reset(seed=0)
    hits, crossings, previous = 0, 0, 0
    for _ in range(220 if skips else 880):
        ram = env.unwrapped.ale.getRAM()
        offset = int(ram[54]) - int(ram[51]) - 6
        action = 0 if ram[54] == 0 or abs(offset) < 4 else 3 if offset > 0 else 2
        _, reward, terminated, _, _ = env.step(action)
        assert not terminated
        hits += round(reward)
        # A ball that was on the agent's side and gets to the other one was hit
        side = int(env.unwrapped.ale.getRAM()[49]) > 128
        crossings += previous and not side
        previous = side
    assert hits == crossings == sent_back


def test_pong_pays_for_a_paddle_near_the_ball():
    env = PongShaping(gym.make("Pong-v5", repeat_action_probability=0.0), {"reward": 0, "near_ball": 1.0})
    env.reset(seed=0)
    values, offsets = [], []
    for _ in range(250):
        values.append(env.step(2)[1])
        ram = env.unwrapped.ale.getRAM()
        offsets.append(abs(int(ram[54]) - int(ram[51]) - 6) if ram[54] else math.inf)
    assert values == pytest.approx([max(0, 1 - offset / 160) for offset in offsets])
    assert max(values) > 0.9
    assert 0 in values


def test_long_episodes_are_penalised_from_a_step_on():
    env = TimePenalty(gym.make("LunarLander-v3"), {"reward": 0, "time": 0.5}, after=3)
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(0)[1] for _ in range(5)] == [0, 0, 0, -0.5, -0.5]
    with pytest.raises(ValueError, match="after=-1 must be a whole number, at least 0"):
        TimePenalty(gym.make("CartPole-v1"), after=-1)


class Informative(gym.Env):
    """Its info has numbers of several kinds, and some that only come at times."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return 0, {}

    def step(self, action):
        self._step += 1
        info = {"speed": np.float32(2), "parts": {"drag": -0.5, "deep": {"x": [3]}}, "lucky": True, "name": "x"}
        if self._step == 3:
            info["seldom"] = 7
        return 0, 1.0, False, self._step == 3, info


def rewards_of_an_episode(env):
    env.reset(seed=0)
    return [env.step(0)[1] for _ in range(3)]


@pytest.mark.parametrize(
    ("key", "rewards"),
    [
        ("speed", [3, 3, 3]),
        ("lucky", [2, 2, 2]),
        ("parts.drag", [0.5, 0.5, 0.5]),
        ("parts.deep.x", [4, 4, 4]),
        ("seldom", [1, 1, 8]),
    ],
)
def test_any_number_in_the_info_can_be_a_term(key, rewards):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = InfoTerms(Informative(), {key: 1.0})
        for _ in range(2):
            assert rewards_of_an_episode(env) == rewards


def test_a_key_that_a_whole_episode_lacks_is_told_once():
    env = InfoTerms(Informative(), {"parts.drug": 1.0, "speed": 1.0})
    with pytest.warns(UserWarning, match=r"had 'parts.drug' in its info.*did you mean 'parts.drag'") as caught:
        assert rewards_of_an_episode(env) == [3, 3, 3]
        rewards_of_an_episode(env)
    assert len(caught) == 1


def test_what_is_no_number_can_not_be_a_term():
    env = InfoTerms(Informative(), {"name": 1.0})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="'name' is 'x' in the info"):
        env.step(0)


def test_a_training_links_what_its_environments_need(closing):
    def wrap(env):
        return CountBonus(MountainCarPotential(env, {"reward": 0, "height": 1.0}), bins=1, shared=True)

    env = closing(make_vec_env("MountainCar-v0", 2, seed=0, wrapper_class=wrap))
    link_to_training(env, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = 0.5 + 0.5 * np.sin(3 * env.reset()[:, 0])
        after, rewards, _, _ = env.step(np.array([1, 1]))
    height = 0.5 + 0.5 * np.sin(3 * after[:, 0])
    assert rewards == pytest.approx(0.5 * height - start + [1, 1 / math.sqrt(2)], abs=1e-5)
    link_to_training(closing(make_vec_env("CartPole-v1", 1)), 0.5)


def documented_defaults():
    text = (Path(__file__).parents[3] / "docs" / "reward-shaping.md").read_text(encoding="utf-8")
    table = text.split("terms and default weights |\n")[1].split("\n\n")[0]
    for names, terms in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [^|]* \| ([^|]*) \|$", table, re.M):
        shapers = re.findall(r"`(\w+)`", names)
        yield from ((shaper, index, terms) for index, shaper in enumerate(shapers) if shaper != "InfoTerms")


@pytest.mark.parametrize(("shaper", "index", "text"), documented_defaults())
def test_the_documented_weights_are_the_defaults(shaper, index, text):
    """``term`` 0.5, or ``term`` …, 0.5 and 10 for two shapers on one line; ``keyword`` (300)."""
    cls = getattr(sb3_ext.wrappers, shaper)
    weights = {
        name: both.split(" and ")
        for name, both in re.findall(r"`(\w+)`(?: of the tip,)? ([\d.]+(?: and [\d.]+)?)\b", text)
    }
    assert dict(cls.default_terms) == {name: float(numbers[index % len(numbers)]) for name, numbers in weights.items()}
    for keyword, number in re.findall(r"`(\w+)` \(([\d.]+)\)", text):
        assert inspect.signature(cls).parameters[keyword].default == float(number)
