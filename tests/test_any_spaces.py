"""Whatever spaces an algorithm of SB3 trains on, ours trains on too, with the same actions and parameters."""

import numpy as np
import pytest
import torch as th
from conftest import RandomEnv
from gymnasium import spaces
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt

PPO_SETTINGS = {"n_steps": 12, "batch_size": 8, "n_epochs": 2}
#: Ours, and what it is held to
PAIRS = {
    "ppo": (PPOExt, PPO, PPO_SETTINGS),
    "recurrent": (RecurrentPPOExt, RecurrentPPO, PPO_SETTINGS),
    "maskable": (MaskablePPOExt, MaskablePPO, PPO_SETTINGS),
    "a2c": (A2CExt, A2C, {"n_steps": 6, "rms_prop_eps": 0.01}),
}
FLOATS, WHOLES = (np.float16, np.float32, np.float64), (np.int8, np.int32, np.int64, np.uint8)
FINITE = [(-1, 1), (0, 3), (2, 5)]
INFINITE = [(0, np.inf), (-np.inf, 1), (-np.inf, np.inf)]


@st.composite
def boxes(draw, bounds):
    dtype = draw(st.sampled_from((*FLOATS, *FLOATS, *WHOLES)))
    shape = draw(st.sampled_from([(1,), (3,), (3,), (2, 2), (1, 2, 3)]))
    low, high = draw(st.sampled_from(bounds))
    if dtype in WHOLES:
        low, high = max(low, 0 if dtype is np.uint8 else -4), min(high, 4)
    return spaces.Box(low, high, shape, dtype)


def whole_spaces(starts):
    """:param starts: where a space may start; SB3 trains with others than 0, but refuses many such observations"""
    pairs = st.tuples(st.integers(1, 4), st.sampled_from(starts))
    several = st.lists(pairs, min_size=1, max_size=3).map(lambda pairs: tuple(zip(*pairs, strict=True)))
    return st.one_of(
        pairs.map(lambda pair: spaces.Discrete(pair[0], start=pair[1])),
        several.map(lambda columns: spaces.MultiDiscrete(columns[0], start=columns[1])),
        st.integers(1, 4).map(spaces.MultiBinary),
    )


images = st.sampled_from([spaces.Box(0, 255, shape, np.uint8) for shape in ((36, 36, 1), (3, 36, 36))])
vectors = st.one_of(boxes(FINITE + INFINITE), whole_spaces([0, 0, 0, 0, 1]), st.just(spaces.MultiBinary([2, 2])))
dicts = st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(vectors, images), min_size=1).map(spaces.Dict)
observation_spaces = st.one_of(vectors, vectors, vectors, dicts, images)
action_spaces = st.one_of(boxes(FINITE), whole_spaces([0, 1, 3, -2]))


class RecordingEnv(RandomEnv):
    """Keeps the actions that it was given; they need not be in the space: SB3 knows nothing of `start`."""

    def __init__(self, *args):
        super().__init__(*args)
        self.actions = []

    def receive(self, action):
        self.actions.append(action)


def policy_for(algorithm, space):
    name = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    name = "CnnPolicy" if is_image_space(space) else name
    return name.replace("Policy", "LstmPolicy") if issubclass(algorithm, RecurrentPPO) else name


def train(algorithm, observation_space, action_space, **kwargs):
    """Train a little; return the actions taken and the parameters, or the error."""
    env = DummyVecEnv([lambda: RecordingEnv(observation_space, action_space) for _ in range(2)])
    policy = policy_for(algorithm, observation_space)
    # Adam's first steps are as large for tiny gradients, whose sign may be rounding alone; not with a large epsilon
    policy_kwargs = {"net_arch": [4], "optimizer_kwargs": {"eps": 0.01}}
    if issubclass(algorithm, RecurrentPPO):
        policy_kwargs["lstm_hidden_size"] = 4
    try:
        model = algorithm(policy, env, seed=0, device="cpu", policy_kwargs=policy_kwargs, **kwargs).learn(48)
    except Exception as error:
        return error
    actions = [action for one in env.envs for action in one.actions]
    return actions, model.policy.state_dict()


def check_same(mine, theirs):
    assert not isinstance(mine, Exception), mine
    for one, other in zip(mine[0], theirs[0], strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype and np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    for name, parameter in theirs[1].items():
        th.testing.assert_close(mine[1][name], parameter, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@example(spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float64))
@example(spaces.Discrete(3), spaces.Box(0, 3, (2,), np.int32))
@given(observation_spaces, action_spaces)
def test_it_trains_where_its_parent_does_and_to_the_same_parameters(name, observation_space, action_space):
    ours, parent, kwargs = PAIRS[name]
    assume(parent is not MaskablePPO or not isinstance(action_space, spaces.Box))
    theirs = train(parent, observation_space, action_space, **kwargs)
    assume(not isinstance(theirs, Exception))
    check_same(train(ours, observation_space, action_space, **kwargs), theirs)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@example(spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float64))
@example(spaces.Discrete(3), spaces.Box(0, 3, (2,), np.int32))
@given(observation_spaces, action_spaces)
def test_reinforce_trains_where_ppo_does_and_alike_on_both_paths(observation_space, action_space):
    assume(not isinstance(train(PPO, observation_space, action_space, **PPO_SETTINGS), Exception))
    fast, plain = (train(REINFORCE, observation_space, action_space, n_steps=12, fast=fast) for fast in (True, False))
    assert not isinstance(plain, Exception), plain
    check_same(fast, plain)
