"""Vectorised environments whose members differ."""

import collections
import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from level_env import LEVEL_ENV
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.callbacks.curriculum import Curriculum
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.vec_env.mixed import check_members, member_fns, members_of_envs, mixed, once_each, read_members
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.base import EPISODE_KEY
from sb3_ext.wrappers.curriculum.options import read_curriculum

MAKE = partial(gym.make, LEVEL_ENV, length=4)
THREE = [
    {"name": "low", "weight": 2},
    {"name": "high", "env_kwargs": {"level": 5.0}},
    {"env": "OtherLevel-v0", "env_kwargs": {"length": 8}},
]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, "must not be empty"),
        ([], "must not be empty"),
        ({"env": LEVEL_ENV}, "must be a list"),
        (["CartPole-v1"], "must be a mapping"),
        ([{"wieght": 2}], "did you mean 'weight'"),
        ([{"env": "CartPol-v1"}], "'CartPol-v1' is not an id of an environment.*CartPole"),
        ([{"env_kwargs": 3}], "must be a mapping"),
        ([{"name": ""}], "must not be empty"),
        ([{"name": 25 * "x"}], "at most 24 characters"),
        ([{"name": "a"}, {"name": "a"}], "two have the name 'a'"),
        ([{"count": 0}], "must be at least 1"),
        ([{"count": 1.5}], "must be a whole number"),
        ([{"weight": 0}], "must be above 0"),
        ([{"weight": "much"}], "must be a number"),
        ([{"count": 1, "weight": 2}], "can't be given both"),
        ([{"count": 1}, {"name": "b"}], "'b' has no count"),
    ],
)
def test_a_mistake_in_a_config_is_told(written, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read_members(written)


def test_a_member_without_a_name_is_called_after_what_it_is():
    other = {"env": "OtherLevel-v0", "env_kwargs": {"length": 8}}
    long = {"env_kwargs": {"level": 5.0, "length": 8, "n_actions": 2}}
    members = read_members([{}, {"env_kwargs": {"level": 5.0}}, other, long])
    assert [member.name for member in members] == ["1", "level=5.0", "OtherLevel-v0,length=8", "4"]


@pytest.mark.parametrize(
    ("shares", "n_envs", "expected"),
    [
        ([{}, {}], 4, [2, 2]),
        ([{"weight": 2}, {"weight": 1}], 6, [4, 2]),
        ([{"weight": 100}, {"weight": 1}], 4, [3, 1]),
        ([{"weight": 1}, {"weight": 1}, {"weight": 2}], 3, [1, 1, 1]),
        ([{"count": 1}, {"count": 3}], 4, [1, 3]),
    ],
)
def test_environments_are_shared_out(shares, n_envs, expected):
    members = read_members([{"name": str(index), **share} for index, share in enumerate(shares)])
    counts = collections.Counter(member.name for member in members_of_envs(members, n_envs))
    assert [counts[str(index)] for index in range(len(shares))] == expected


def test_processes_that_follow_one_another_get_some_of_each():
    members = read_members([{"name": "a"}, {"name": "b"}])
    assert [member.name for member in members_of_envs(members, 4)] == ["a", "b", "a", "b"]


def test_a_rare_member_stands_in_the_middle_of_the_others():
    members = read_members([{"name": "a", "count": 4}, {"name": "b", "count": 1}])
    assert "".join(member.name for member in members_of_envs(members, 5)) == "aabaa"


@pytest.mark.parametrize(
    ("members", "n_envs", "said"),
    [
        ([{}, {"name": "b"}], 1, "there are 2, but n_envs is only 1"),
        ([{"count": 2}, {"count": 2, "name": "b"}], 3, "counts add up to 4 environments, but n_envs is 3"),
    ],
)
def test_too_few_environments_are_told(members, n_envs, said):
    with pytest.raises(ValueError, match=said):
        member_fns(read_members(members), MAKE, n_envs)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"name": "odd", "env_kwargs": {"n_actions": 3}}, r"'odd': its action_space is Discrete\(3\), but must be"),
        ({"name": "odd", "env": "CartPole-v1"}, "'odd': its observation_space is"),
        ({"name": "odd", "env_kwargs": {"levle": 3}}, "'odd': it can't be made: .*levle"),
    ],
)
def test_members_that_do_not_go_together_are_told(member, said):
    with pytest.raises(ValueError, match=said):
        check_members(read_members([{}, member]), MAKE)


VEC_ENVS = {
    "dummy": DummyVecEnv,
    "subproc": partial(SubprocVecEnv, start_method="fork"),
    "multicore": partial(MulticoreVecEnv, n_workers=2, start_method="fork"),
}


def play(vec_env, n_steps=8):
    """What was reported of the episodes, and the raw scores that Monitor saw."""
    vec_env.seed(0)
    vec_env.reset()
    reported, scores = [], []
    for _ in range(n_steps):
        _, _, _, infos = vec_env.step(np.zeros(vec_env.num_envs, dtype=int))
        reported += [info[EPISODE_KEY] for info in infos if EPISODE_KEY in info]
        scores += [info["episode"]["r"] for info in infos if "episode" in info]
    return reported, scores


@pytest.mark.parametrize("vec_env_cls", VEC_ENVS.values(), ids=VEC_ENVS)
def test_each_member_has_scores_of_its_own(closing, tmp_path, vec_env_cls):
    fns = member_fns(read_members(THREE), MAKE, 4, seed=0, monitor_dir=str(tmp_path / "run"))
    vec_env = closing(vec_env_cls(fns))
    assert sorted(vec_env.get_attr("member")) == ["OtherLevel-v0,length=8", "high", "low", "low"]
    reported, scores = play(vec_env)
    by_name = collections.Counter(tuple(sorted(numbers.items())) for numbers in reported)
    assert by_name == {
        (("member/low/length", 4.0), ("member/low/score", 0.0)): 4,
        (("member/high/length", 4.0), ("member/high/score", 20.0)): 2,
        (("member/OtherLevel-v0,length=8/length", 8.0), ("member/OtherLevel-v0,length=8/score", 400.0)): 1,
    }
    assert sorted(load_results(str(tmp_path / "run"))["r"]) == sorted(scores)


def test_a_class_of_vectorised_environments_takes_members_where_rl_zoo_gives_it_functions(closing):
    vec_env = closing(make_vec_env(LEVEL_ENV, 4, vec_env_cls=mixed(DummyVecEnv, read_members(THREE), MAKE, seed=0)))
    assert sorted(vec_env.get_attr("member")) == ["OtherLevel-v0,length=8", "high", "low", "low"]


def test_scores_stay_raw_under_wrappers_that_change_the_reward(closing):
    fns = member_fns(
        read_members(THREE[:2]), MAKE, 2, env_wrapper=lambda env: gym.wrappers.TransformReward(env, lambda r: -r)
    )
    reported, scores = play(closing(DummyVecEnv(fns)), 4)
    assert [numbers.get("member/high/score") for numbers in reported] == [None, 20.0] and scores == [0.0, 20.0]


def test_evaluation_has_each_member_as_often():
    members = read_members([{"count": 5}, {"count": 1, "name": "b"}])
    assert [member.name for member in members_of_envs(once_each(members), 2)] == ["1", "b"]


def test_scores_of_members_are_logged(capsys):
    model = PPO("MlpPolicy", DummyVecEnv(member_fns(read_members(THREE), MAKE, 3)), n_steps=8, batch_size=24, verbose=1)
    model.learn(24, callback=EpisodeMetrics())
    printed = capsys.readouterr().out
    for name, score in (("low", "0"), ("high", "20"), ("OtherLevel-v0,length=8", "400")):
        assert re.search(rf"{name}/score +\| {score} ", printed)


def test_one_model_trains_on_all_of_them_and_through_a_curriculum_too(closing):
    stages = [{"next": {"steps": 32}}, {"attributes": {"bonus": 1.0}}]
    config = read_curriculum({"stages": stages})
    vec_env = closing(DummyVecEnv(member_fns(read_members(THREE[:2]), MAKE, 2, env_wrapper=config.wrap)))
    model = PPO("MlpPolicy", vec_env, n_steps=16, batch_size=32, n_epochs=1, device="cpu")
    model.learn(96, callback=Curriculum(config))
    assert {episode["r"] for episode in list(model.ep_info_buffer)[:8]} == {0.0, 20.0}
    assert {episode["r"] for episode in list(model.ep_info_buffer)[-8:]} == {4.0, 24.0}
