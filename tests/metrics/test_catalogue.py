"""The catalogue of metrics is complete, checked, and known to the docs; bounds come from it and from the run."""

import ast
import math
import re
import runpy

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, PROJECT, RandomEnv
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.atari_wrappers import ClipRewardEnv
from stable_baselines3.common.callbacks import CallbackList, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt
from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.metrics.bounds import hard_bounds, is_within
from sb3_ext.metrics.catalogue import CATALOGUE_FILE, catalogue, describe, ordered, read_catalogue
from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.wrappers.shaping.terms import RewardTerms

MISSING = "describe them in sb3_ext/metrics/metrics.yml"
ROLLOUT = {"n_steps": 16}
PPO_KWARGS = {**ROLLOUT, "batch_size": 16, "n_epochs": 2}
SCHEDULED = {"learning_rate": "lin_1e-3", "ent_coef": "lin_0.01"}
RUNS = {
    "PPOExt": (PPOExt, "Discrete", {**PPO_KWARGS, **SCHEDULED, "clip_range_vf": 0.2, "target_kl": 0.01}),
    "PPOExt, adaptive": (PPOExt, "Box", {**PPO_KWARGS, "kl_adaptive_lr": 0.01}),
    "A2CExt": (A2CExt, "MultiDiscrete", {**ROLLOUT, **SCHEDULED}),
    "REINFORCE": (REINFORCE, "Box", {**ROLLOUT, **SCHEDULED}),
    "RecurrentPPOExt": (RecurrentPPOExt, "Discrete", PPO_KWARGS),
    "MaskablePPOExt": (MaskablePPOExt, "MultiBinary", PPO_KWARGS),
    "PPO": (PPO, "Box", PPO_KWARGS),
    "A2C": (A2C, "Discrete", ROLLOUT),
    "DQN": (DQN, "Discrete", {"learning_starts": 8, "buffer_size": 100}),
    "SAC": (SAC, "Box", {"learning_starts": 8, "buffer_size": 100, "batch_size": 8}),
}
TINY = {"net_arch": [8]}


class Names(KVWriter):
    """Keeps the names of all that is logged."""

    def __init__(self):
        self.names = set()

    def write(self, key_values, key_excluded, step=0):
        self.names |= set(key_values)

    def close(self):
        pass


def env_of(actions="Discrete", observations="Box", n_envs=2, wrapper=None):
    def make():
        env = RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES[actions])
        return env if wrapper is None else wrapper(env)

    return make_vec_env(make, n_envs, seed=0)


@pytest.mark.parametrize("run", RUNS)
def test_all_that_algorithms_and_callbacks_log_has_an_entry(run):
    algorithm, actions, kwargs = RUNS[run]
    logged = Names()
    recurrent = algorithm is RecurrentPPOExt
    policy_kwargs = {**TINY, "lstm_hidden_size": 4} if recurrent else TINY
    model = algorithm(
        "MlpLstmPolicy" if recurrent else "MlpPolicy",
        env_of(actions),
        device="cpu",
        policy_kwargs=policy_kwargs,
        **kwargs,
    )
    model.set_logger(Logger(folder=None, output_formats=[logged]))
    callbacks = [Metrics(), EpisodeMetrics()]
    if algorithm is PPO:
        callbacks.append(EvalCallback(env_of(actions), n_eval_episodes=1, eval_freq=20, verbose=0))
    model.learn(96, callback=CallbackList(callbacks), log_interval=1)
    assert len(logged.names) > 15
    assert [name for name in sorted(logged.names) if not describe(name).entry] == [], MISSING


#: Written like names of metrics, and parts of names or something else
NOT_METRICS = {"policy/action", "rollout/advantage", "rollout/return", "train/scaled_", "steps/s"}


def texts_of(path):
    """Texts in a source file but its docstrings, with ``*`` where an f-string puts something in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    apart |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in apart:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)


def test_every_name_of_a_metric_in_the_source_has_an_entry():
    """Also of those that only W&B gets, or that a training of a few seconds does not log."""
    sources = [path for folder in ("sb3_ext", "callbacks", "wrappers") for path in (PROJECT / folder).rglob("*.py")]
    names = {text for path in sources for text in texts_of(path) if re.fullmatch(r"[a-z]+(/[a-z_*]+)+", text)}
    assert len(names) > 90
    known = {group.name for group in catalogue().groups}
    assert [name for name in sorted(names - NOT_METRICS) if name.split("/")[0] not in known] == [], MISSING
    whole = {name for name in names - NOT_METRICS if "*" not in name}
    assert [name for name in sorted(whole) if not describe(name).entry] == [], MISSING


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("reward/centring", "reward/*"),
        ("info/x_position", "info/*"),
        ("info/x_position_at_end", "info/*_at_end"),
        ("env/gravity", "env/*"),
        ("env/gravity_std", "env/*_std"),
        ("env/obs_std", "env/obs_std"),
        ("schedule/gamma", "schedule/*"),
        ("member/storm/score", "member/*/score"),
        ("alert/kl_high", "alert/*"),
        ("alert/total", "alert/total"),
        ("curriculum/stage", "curriculum/stage"),
        ("custom/thing", ""),
        ("thing", ""),
    ],
)
def test_a_name_is_found_by_itself_or_by_the_longest_pattern(name, entry):
    info = describe(name)
    assert (info.name, info.entry) == (name, entry)
    assert info.group == name.rpartition("/")[0].split("/")[0]


def test_names_are_ordered_by_group_and_priority_and_unknown_ones_come_last():
    names = ["zoo/a", "time/fps", "b", "train/loss", "train/unknown", "train/approx_kl", "rollout/ep_rew_mean"]
    wanted = ["rollout/ep_rew_mean", "train/approx_kl", "train/loss", "train/unknown", "time/fps", "b", "zoo/a"]
    assert ordered(names) == wanted


def test_every_entry_is_of_a_group_and_no_name_is_written_twice():
    written = re.findall(r"^  (\S+/\S+):$", CATALOGUE_FILE.read_text(), re.MULTILINE)
    assert sorted(written) == sorted(info.name for info in catalogue().metrics)
    assert {info.group for info in catalogue().metrics} == {group.name for group in catalogue().groups}


@pytest.mark.parametrize(
    ("entry", "error", "text"),
    [
        ({"meening": "x"}, TypeError, "did you mean 'meaning'"),
        ({"meaning": "x", "priority": 0}, ValueError, "priority=0 must be at least 1"),
        ({"meaning": "x", "bounds": "entrpy"}, ValueError, "did you mean 'entropy'"),
        ({"meaning": "x", "bounds": [0]}, ValueError, "a list such as"),
        ({"meaning": "x", "bounds": [0, True]}, ValueError, "must be a number"),
        ({"meaning": "x", "priority": 10}, ValueError, "priority=10 must be at most 9"),
        ({"meaning": 3}, ValueError, "must be a string"),
        ({"meaning": "x", "better": "hihger"}, ValueError, "did you mean 'higher'"),
        ({"meaning": "x", "highlight": "yes"}, ValueError, "must be true or false"),
        ({"meaning": "x", "decimals": 1, "digits": 2}, ValueError, "give one of them"),
        ({"read": "x"}, ValueError, "needs a meaning"),
    ],
)
def test_a_mistake_in_the_file_is_an_error(entry, error, text):
    with pytest.raises(error, match=text):
        read_catalogue({"groups": {"train": {"title": "Updates"}}, "metrics": {"train/x": entry}})


def test_an_entry_of_no_group_is_an_error():
    with pytest.raises(ValueError, match="did you mean 'train'"):
        read_catalogue({"groups": {"train": {"title": "Updates"}}, "metrics": {"trian/x": {"meaning": "x"}}})


def test_the_docs_are_those_of_the_catalogue():
    document = runpy.run_path(str(PROJECT / "scripts" / "docs" / "metrics_doc.py"))["document"]()
    assert (PROJECT / "docs" / "metrics.md").read_text() == document, "run scripts/docs/metrics_doc.py"


ENTROPIES = {"Discrete": math.log(3), "MultiDiscrete": math.log(6), "MultiBinary": 3 * math.log(2), "Box": math.inf}


@pytest.mark.parametrize("actions", ENTROPIES)
def test_entropy_is_at_most_that_of_a_uniform_policy(actions):
    model = A2C("MlpPolicy", env_of(actions), device="cpu")
    low = -math.inf if actions == "Box" else 0.0
    assert hard_bounds("policy/entropy", model) == pytest.approx((low, ENTROPIES[actions]))
    assert hard_bounds("train/entropy_loss", model) == pytest.approx((-ENTROPIES[actions], -low))


@pytest.mark.parametrize(
    ("algorithm", "actions", "bounds"),
    [
        (A2C, "Discrete", (0, 2)),
        (A2C, "MultiDiscrete", (0, 2)),
        (A2C, "MultiBinary", (0, 1)),
        (A2C, "Box", (-math.inf, math.inf)),
        (SAC, "Box", (-1, 1)),
    ],
)
def test_actions_are_in_their_space_unless_a_gaussian_may_leave_it(algorithm, actions, bounds):
    assert hard_bounds("policy/action_mean", algorithm("MlpPolicy", env_of(actions), device="cpu")) == bounds


@pytest.mark.parametrize(
    ("observations", "bounds"), [("Box", (-1, 1)), ("image", (0, 1)), ("Dict", (-1, 3)), ("Discrete", (0, 4))]
)
def test_observations_are_in_their_space(observations, bounds):
    model = A2C(POLICIES[observations], env_of(observations=observations), device="cpu")
    assert hard_bounds("env/obs_max", model) == bounds


def test_normalised_observations_and_rewards_are_clipped():
    env = VecNormalize(env_of(), clip_obs=5.0, clip_reward=3.0)
    model = A2C("MlpPolicy", env, device="cpu")
    assert hard_bounds("env/obs_mean", model) == (-5, 5)
    assert hard_bounds("env/reward_min", model) == (-3, 3)
    model.set_env(env_of())
    assert hard_bounds("env/obs_mean", model) == (-1, 1)


@pytest.mark.parametrize(
    ("wrapper", "bounds"),
    [
        (None, (-math.inf, math.inf)),
        (ClipRewardEnv, (-1, 1)),
        (lambda env: RewardTerms(ClipRewardEnv(env), {"one": 5.0}, {"one": lambda step: 1.0}), (-math.inf, math.inf)),
    ],
)
def test_rewards_are_bounded_where_a_wrapper_clips_them_last(wrapper, bounds):
    model = A2C("MlpPolicy", env_of(wrapper=wrapper), device="cpu")
    assert hard_bounds("env/reward_mean", model) == bounds


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda: make_vec_env("CartPole-v1", 1), 500),
        (lambda: make_vec_env("CartPole-v1", 1, env_kwargs={"max_episode_steps": 20}), 20),
        (lambda: CartPoleVecEnv(2, max_episode_steps=30), 30),
        (lambda: SubprocVecEnv([lambda: gym.make("CartPole-v1", max_episode_steps=40)], "fork"), 40),
        (lambda: DummyVecEnv([lambda: RandomEnv(spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2))]), math.inf),
    ],
    ids=["id", "keyword", "native", "process", "none"],
)
def test_episodes_are_no_longer_than_the_time_limit(closing, make, limit):
    model = A2C("MlpPolicy", closing(make()), device="cpu")
    assert hard_bounds("rollout/ep_len_mean", model) == (0, limit)


def test_fixed_bounds_need_no_run_and_unknown_metrics_have_none():
    model = A2C("MlpPolicy", env_of(), device="cpu")
    assert hard_bounds("train/explained_variance", model) == (-math.inf, 1)
    assert hard_bounds("train/clip_fraction", model) == (0, 1)
    assert hard_bounds("custom/thing", model) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("value", "within"), [(0.0, True), (-1e-9, True), (1.0005, True), (1.01, False), (-0.1, False), (math.nan, True)]
)
def test_rounding_is_not_out_of_bounds(value, within):
    assert is_within(value, (0.0, 1.0)) is within
