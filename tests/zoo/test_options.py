"""``ext:`` in a hyperparameter file: what it may hold, and what it does."""

import argparse
import copy
import fcntl
import os
import re
import time
from functools import partial

import gymnasium as gym
import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, PROJECT, RandomEnv
from rl_zoo3 import exp_manager
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sb3_ext import PPOExt
from sb3_ext.common.env_spec import spec_of
from sb3_ext.common.extractors import NormalizedMlp, SmallCNN
from sb3_ext.common.repeated_comparison import wins_clearly
from sb3_ext.common.usage_error import UsageError
from sb3_ext.fast.threads import choose_threads
from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.vec_env.choose import _start_method, choose_processes
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.vec_env.native_atari import NativeAtariVecEnv
from sb3_ext.zoo.options import OUR_DEFAULTS, ExtOptions, read_ext


def test_nothing_written_gives_the_defaults():
    assert read_ext(None) == ExtOptions() == read_ext({})


@pytest.mark.parametrize("topic", OUR_DEFAULTS)
def test_what_is_on_by_default_can_be_switched_off(topic):
    options, defaults = read_ext({topic: False}, is_ours=True), read_ext(None, is_ours=True)
    assert getattr(options, topic) is None
    assert all(
        getattr(options, other) == getattr(defaults, other) is not None for other in OUR_DEFAULTS if other != topic
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"nativ": False}, "did you mean 'native'"),
        ({"native": "no"}, "must be true or false"),
        ({"vec_env": "multicor"}, "did you mean 'multicore'"),
        ({"threads": 0}, "must be 'auto' or a whole number, at least 1"),
        ("native", "must be a mapping"),
    ],
)
def test_a_mistake_is_told(written, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read_ext(written)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_options():
    with pytest.raises(UsageError) as error:
        read_ext({"vec_env": "multicor", "threshold": "high", "evaluation": {"evry": 100, "episodes": 0}})
    assert str(error.value).splitlines() == [
        "ext: threshold='high' must be a number.",
        "ext: vec_env='multicor' must be 'auto', 'dummy', 'subproc', 'multicore', 'envpool' or 'make_vec': "
        "did you mean 'multicore'?",
        "ext: evaluation: episodes=0 must be at least 1.",
        "ext: evaluation has no option 'evry': did you mean 'every'?",
    ]


def set_up(tmp_path, env_id, hyperparams=None, algo="ppo_ext", num_threads=1, **kwargs):
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=num_threads),
        algo,
        env_id,
        str(tmp_path),
        eval_freq=-1,
        hyperparams=hyperparams or {},
        verbose=1,
        **kwargs,
    )
    return manager, manager.setup_experiment()[0]


ATARI = {"n_envs": 2, "n_steps": 8, "batch_size": 16}


TWO = {"n_envs": 2, "n_steps": 128}
N_CORES = min(len(os.sched_getaffinity(0)), 2)


@pytest.mark.parametrize(
    ("env_id", "hyperparams", "kind", "said"),
    [
        ("CartPole-v1", {}, CartPoleVecEnv, "vectorised CartPole"),
        ("CartPole-v1", {"ext": {"native": False}}, DummyVecEnv, "in one process"),
        ("CartPole-v1", {"ext": {"vec_env": "dummy"}}, DummyVecEnv, "in one process"),
        ("CartPole-v1", {**TWO, "ext": {"vec_env": "multicore"}}, MulticoreVecEnv, f"in {N_CORES} processes"),
        ("CartPole-v1", {**TWO, "ext": {"vec_env": "subproc"}}, SubprocVecEnv, "in a process for each environment"),
        ("Boxing-v5", ATARI, NativeAtariVecEnv, "native Atari"),
        ("Boxing-v5", {**ATARI, "ext": {"exact_pixels": False}}, NativeAtariVecEnv, "native Atari, pooled in grey"),
        ("Boxing-v5", {**ATARI, "ext": {"native": False, "vec_env": "dummy"}}, DummyVecEnv, "in one process"),
    ],
)
def test_the_environments_are_those_that_were_asked_for(tmp_path, capsys, env_id, hyperparams, kind, said):
    _, model = set_up(tmp_path, env_id, hyperparams)
    assert type(model.env.unwrapped) is kind
    printed = capsys.readouterr().out
    assert f"Environments: {said}\n" in printed and "Not the native version" not in printed
    assert spec_of(model.env).id == env_id
    model.env.close()


def test_other_wrappers_than_the_standard_ones_are_said_to_keep_the_native_version_away(tmp_path, capsys):
    wrappers = ["stable_baselines3.common.atari_wrappers.AtariWrapper", "gymnasium.wrappers.NormalizeReward"]
    _, model = set_up(tmp_path, "Boxing-v5", {**ATARI, "env_wrapper": wrappers, "ext": {"native": True}})
    assert not isinstance(model.env.unwrapped, NativeAtariVecEnv)
    assert "Not the native version of Boxing-v5: env_wrapper=" in capsys.readouterr().out
    model.env.close()


def test_stock_algorithms_keep_their_environments_unless_they_ask(tmp_path):
    _, stock = set_up(tmp_path, "CartPole-v1", algo="ppo")
    assert type(stock.env.unwrapped) is DummyVecEnv
    _, asked = set_up(tmp_path, "CartPole-v1", {"ext": {"native": True}}, algo="ppo")
    assert type(asked.env.unwrapped) is CartPoleVecEnv


def test_the_command_lines_choice_of_environments_goes_first(tmp_path):
    _, model = set_up(tmp_path, "CartPole-v1", {"n_envs": 2, "n_steps": 128}, vec_env_type="subproc")
    assert type(model.env.unwrapped) is SubprocVecEnv
    model.learn(256)
    model.env.close()


@pytest.mark.parametrize(
    ("algo", "section", "command_line", "used"),
    [
        ("ppo_ext", {}, {}, True),
        ("ppo_ext", {}, {"eval_env_kwargs": {}}, False),
        ("ppo", {"ext": {"native": False}}, {}, True),
        ("ppo", {}, {}, False),
    ],
    ids=["ours", "the command line goes first", "stock that asks for it", "stock"],
)
def test_evaluation_is_in_the_task_of_the_file(tmp_path, algo, section, command_line, used):
    hyperparams = {"env_kwargs": {"sutton_barto_reward": True}, **section}
    manager, _ = set_up(tmp_path, "CartPole-v1", hyperparams, algo, **command_line)
    (spec,) = manager.create_envs(1, eval_env=True, no_log=True).get_attr("spec")
    assert spec.kwargs.get("sutton_barto_reward", False) is used


def test_normalisation_goes_on_top_of_a_native_environment(tmp_path):
    _, model = set_up(tmp_path, "CartPole-v1", {"normalize": True})
    assert isinstance(model.env, VecNormalize)
    assert isinstance(model.env.unwrapped, CartPoleVecEnv)


class Slow(gym.Wrapper):
    """Waits in each step, and lets nobody else wait at the same time if it is given a file to lock."""

    def __init__(self, env, lock=os.devnull):
        super().__init__(env)
        self._file = open(lock, "w")

    def step(self, action):
        if self._file.name != os.devnull:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        time.sleep(0.05)  # long enough for a busy machine
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return super().step(action)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="Needs two cores")
def test_environments_get_several_processes_where_these_are_faster(tmp_path):
    n = min(len(os.sched_getaffinity(0)), 8)
    assert choose_processes("auto", 8, lambda: Slow(gym.make("CartPole-v1"))).name == f"{n} processes"
    lock = tmp_path / "lock"
    assert choose_processes("auto", 8, lambda: Slow(gym.make("CartPole-v1"), lock)).name == "one process"
    assert choose_processes("auto", 2, lambda: gym.make("CartPole-v1")).name == "one process"


def test_a_fork_is_made_only_where_nobody_else_runs(monkeypatch):
    monkeypatch.setattr("threading.active_count", lambda: 1)
    assert _start_method() == "fork"
    monkeypatch.setattr("threading.active_count", lambda: 2)
    assert _start_method() is None


@pytest.mark.parametrize(
    ("comparisons", "wins"),
    [("+++++", True), ("++-+++", True), ("--", False), ("-+-", False), ("++++--", False), ("+-++-", False)],
)
def test_another_way_is_taken_when_it_wins_almost_all_comparisons(comparisons, wins):
    rest = iter(comparisons)
    assert wins_clearly(lambda: next(rest) == "+") is wins
    assert not list(rest)


@pytest.mark.parametrize(("results", "wins"), [("--+++++", True), ("--++++-", False)])
def test_a_comparison_may_forgive_more_losses(results, wins):
    rest = iter(results)
    assert wins_clearly(lambda: next(rest) == "+", losses_allowed=2) is wins
    assert not list(rest)


@pytest.mark.parametrize(
    ("num_threads", "threads", "expected"),
    [
        (-1, "auto", 1),  # a tiny network has no work to share out
        (-1, 3, 3),
        (2, 3, 2),
        (2, "auto", 2),
    ],
    ids=["measured", "in the file", "the command line goes first", "the command line goes before measuring"],
)
def test_threads_are_those_asked_for_or_measured(tmp_path, capsys, two_threads, num_threads, threads, expected):
    hyperparams = {"policy_kwargs": {"net_arch": [8]}, "ext": {"threads": threads}}
    set_up(tmp_path, "CartPole-v1", hyperparams, num_threads=num_threads)
    assert th.get_num_threads() == expected
    said = f"Threads of torch: {expected}{' (measured)' if threads == 'auto' else ''}\n"
    assert (said in capsys.readouterr().out) == (num_threads == -1)


@pytest.mark.parametrize(
    ("shares_work", "expected"), [(True, 2), (False, 1)], ids=["less work for each", "only less waiting"]
)
def test_all_threads_are_used_where_they_share_the_work(two_threads, monkeypatch, shares_work, expected):
    model = PPOExt("MlpPolicy", "CartPole-v1", device="cpu")
    bias = model.policy.value_net.bias

    def evaluate_actions(*args):
        is_alone = th.get_num_threads() == 1
        time.sleep(0.15 * is_alone)
        end = time.thread_time() + (0.01 if is_alone or not shares_work else 0.0)
        while time.thread_time() < end:
            pass
        return bias, bias, None

    monkeypatch.setattr(model.policy, "evaluate_actions", evaluate_actions)
    assert choose_threads(model) == expected


IMAGES = partial(RandomEnv, OBSERVATION_SPACES["image"], ACTION_SPACES["MultiDiscrete"])
CENTRED = {"features_extractor_class": SmallCNN, "features_extractor_kwargs": {"centre": True, "kernels": (3, 2)}}


@pytest.mark.parametrize(
    ("policy", "make_env", "kwargs", "statistics"),
    [
        ("MlpPolicy", partial(gym.make, "CartPole-v1"), {"features_extractor_class": NormalizedMlp}, "mean"),
        ("CnnPolicy", IMAGES, CENTRED, "cnn.0.mean"),
    ],
    ids=["vectors", "images"],
)
def test_measuring_threads_leaves_the_model_as_it_was(two_threads, policy, make_env, kwargs, statistics):
    model = PPOExt(policy, make_env(), device="cpu", policy_kwargs={"net_arch": [8], **kwargs})
    before = copy.deepcopy(model.policy.state_dict())
    choose_threads(model)
    after = model.policy.state_dict()
    assert all(th.equal(after[name], values) for name, values in before.items())
    assert f"features_extractor.{statistics}" in after, "statistics of observations count too"
    assert all(parameter.grad is None for parameter in model.policy.parameters())
    assert th.get_num_threads() == 2


@pytest.mark.parametrize("key", ExtOptions.model_fields)
def test_every_key_is_documented(key):
    table = (PROJECT / "docs" / "rl_zoo.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| [^|]*`{key}`", table, re.M), f"add a row for {key} to docs/rl_zoo.md"
    assert f":param {key}:" in ExtOptions.__doc__
