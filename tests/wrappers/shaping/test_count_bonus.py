"""Seldom seen states get a bonus, counted by each environment or by all of a training together."""

import math
import os
import tempfile

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.shaping.count_bonus import CountBonus, StateCells, share_counts

pytestmark = pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")


class Walk(gym.Env):
    """The action is the next observation; rewards are 0."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.array(action, np.float32), 0.0, False, False, {}


def bonuses(env, places):
    return [env.step(np.array(place))[1] for place in places]


def test_the_bonus_falls_with_the_root_of_the_count():
    env = CountBonus(Walk(), bins=2)
    env.reset(seed=0)
    places = [(0.1, 0.1), (0.2, 0.4), (0.1, 0.9), (0.3, 0.3), (0.9, 0.9)]
    assert bonuses(env, places) == pytest.approx([1, 1 / math.sqrt(2), 1, 1 / math.sqrt(3), 1])


def test_counts_outlive_an_episode_and_a_seed_begins_anew():
    env = CountBonus(Walk(), {"count": 4.0}, bins=2)
    env.reset(seed=0)
    assert bonuses(env, [(0, 0)]) == [4]
    env.reset()
    assert bonuses(env, [(0, 0)]) == [pytest.approx(4 / math.sqrt(2))]
    env.reset(seed=0)
    assert bonuses(env, [(0, 0)]) == [4]


@pytest.mark.parametrize(
    ("observation", "cell"), [((0, 0), 0), ((0.49, 0.34), 1), ((0.51, 0.99), 5), ((-7, 0.5), 1), ((7, 7), 5)]
)
def test_cells_are_numbered_and_what_is_outside_belongs_to_the_outermost(observation, cell):
    assert StateCells(Walk.observation_space, bins=[2, 3]).index(observation) == cell


@pytest.mark.parametrize("space", [gym.spaces.Discrete(6, start=2), gym.spaces.MultiDiscrete([2, 3], start=[1, -1])])
def test_each_state_of_a_discrete_space_is_a_cell(space):
    cells = StateCells(space)
    space.seed(0)
    assert {cells.index(space.sample()) for _ in range(200)} == set(range(6))
    assert cells.n_cells == 6


def test_only_the_chosen_dimensions_count():
    space = gym.make("CartPole-v1").observation_space
    cells = StateCells(space, bins=4, dimensions=[2], low=-0.2, high=0.2)
    assert cells.n_cells == 4
    assert cells.index([100, 100, 0.05, 100]) == 2


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({}, "Number 1 of the observation is unbounded"),
        ({"dimensions": [0, 4]}, "different indices from 0 to 3"),
        ({"dimensions": [0], "low": 3, "high": 2}, "low=3 must be below high=2"),
        ({"dimensions": [0, 2], "bins": [3, 3, 3]}, "bins=.* has 3 numbers, but there are 2 dimensions"),
        ({"dimensions": [0, 2], "bins": 2.5}, "must be whole numbers"),
        ({"low": -1, "high": 1, "bins": 100}, "make 100000000 cells"),
        ({"low": "deep"}, "low='deep' must be a number"),
        ({"dimensions": [0], "shared": "no"}, "shared='no' must be True or False"),
    ],
)
def test_wrong_parameters_get_a_clear_error(kwargs, error):
    with pytest.raises(ValueError, match=error):
        CountBonus(gym.make("CartPole-v1"), **kwargs)


def test_an_observation_that_is_no_number_is_told():
    with pytest.raises(ValueError, match="NaN"):
        StateCells(Walk.observation_space).index([0.5, math.nan])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.filterwarnings("ignore:CountBonus has shared")
def test_checkers_find_nothing_wrong(shared):
    env = CountBonus(gym.make("MountainCar-v0"), shared=shared)
    check_gymnasium_env(env, skip_render_check=True)
    check_sb3_env(env)


def make(vec_env_cls, shared=True, n_envs=3):
    return make_vec_env(
        Walk,
        n_envs,
        seed=0,
        wrapper_class=CountBonus,
        wrapper_kwargs={"bins": 2, "shared": shared},
        vec_env_cls=vec_env_cls,
        vec_env_kwargs={} if vec_env_cls is DummyVecEnv else {"start_method": "fork"},
    )


@pytest.mark.parametrize("vec_env_cls", [DummyVecEnv, SubprocVecEnv, MulticoreVecEnv])
def test_shared_counts_are_those_of_all_environments_in_whatever_process(vec_env_cls, closing):
    files = set(os.listdir(tempfile.gettempdir()))
    env = closing(make(vec_env_cls))
    share_counts(env)
    assert not [name for name in set(os.listdir(tempfile.gettempdir())) - files if "sb3-ext-counts" in name]
    env.reset()
    for _ in range(10):
        env.step(np.full((3, 2), 0.1))
    # In turn, the fourth place is new to all, and is seen by one environment after the other
    for earlier in range(3):
        places = np.full((3, 2), 0.1)
        places[earlier] = 0.9
        assert env.step(places)[1][earlier] == pytest.approx(1 / math.sqrt(earlier + 1))
    rewards = env.step(np.full((3, 2), 0.1))[1]
    # 36 visits before; those of this step may come in any order
    assert ((1 / math.sqrt(39) <= rewards + 1e-6) & (rewards - 1e-6 <= 1 / math.sqrt(37))).all()


def test_without_sharing_each_environment_counts_for_itself(closing):
    env = closing(make(DummyVecEnv, shared=False))
    share_counts(env)
    env.reset()
    assert env.step(np.full((3, 2), 0.1))[1].tolist() == [1, 1, 1]


def test_an_evaluation_does_not_count_for_the_training(closing):
    env, eval_env = closing(make(DummyVecEnv)), closing(make(DummyVecEnv))
    share_counts(env)
    share_counts(eval_env)
    eval_env.reset()
    eval_env.step(np.full((3, 2), 0.1))
    env.reset()
    assert env.step(np.full((3, 2), 0.1))[1] == pytest.approx([1, 1 / math.sqrt(2), 1 / math.sqrt(3)])


def test_sharing_that_nobody_set_up_is_told_once():
    env = CountBonus(Walk(), shared=True)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match=r"share_counts\(\) was not called") as caught:
        bonuses(env, [(0, 0), (0, 0)])
    assert len(caught) == 1


def test_environments_without_a_bonus_are_left_alone(closing):
    share_counts(closing(make_vec_env("CartPole-v1", 2)))
