"""Previous actions in the observation, hidden parts, stacked vectors."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, FrameStackObservation
from noise_checks import VEC_ENVS, CountingEnv, check_vec_env, check_wrapped, random_env, trajectory
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

from sb3_ext import PPOExt
from sb3_ext.wrappers.history import MaskObservation, PreviousActions

MODULE = "sb3_ext.wrappers.history"
WIDTHS = {"Discrete": 3, "MultiDiscrete": 5, "MultiBinary": 3, "Box": 2}


@pytest.mark.parametrize("action", ACTION_SPACES)
@pytest.mark.parametrize(
    "observation, key",
    [("Box", None), ("Dict", None), *((observation, "before") for observation in OBSERVATION_SPACES)],
)
def test_both_checkers_pass_with_previous_actions(observation, action, key):
    check_wrapped(PreviousActions(random_env(observation, action), horizon=2, key=key))


@pytest.mark.parametrize(
    "observation, hide, remove",
    [
        ("Box", [1, 3], False),
        ("Box", ["2:"], True),
        ("Box", -1, True),
        ("Dict", ["number"], True),
        ("Dict", "vector", False),
        ("Dict", {"vector": [0, "2:3"]}, False),
        ("Dict", {"vector": 1, "number": ":"}, True),
    ],
)
def test_both_checkers_pass_with_hidden_parts(observation, hide, remove):
    check_wrapped(MaskObservation(random_env(observation), hide, remove))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: PreviousActions(env, horizon=3),
        lambda env: PreviousActions(env, key="before"),
        lambda env: MaskObservation(env, [1, 3]),
        lambda env: FlattenObservation(FrameStackObservation(env, 3)),
    ],
)
def test_a_real_environment_passes_and_its_spec_makes_it_again(wrap):
    env = wrap(gym.make("CartPole-v1"))
    check_wrapped(env)
    np.testing.assert_equal(trajectory(env.spec.make(), 3), trajectory(env, 3))


@pytest.mark.parametrize("kind", VEC_ENVS)
def test_vectorised_environments_give_the_same(kind, closing):
    wrappers = [
        {f"{MODULE}.MaskObservation": {"hide": [1, 3], "remove": True}},
        {"gymnasium.wrappers.FrameStackObservation": {"stack_size": 2}},
        "gymnasium.wrappers.FlattenObservation",
        {f"{MODULE}.PreviousActions": {"horizon": 2}},
    ]
    check_vec_env(kind, "CartPole-v1", wrappers, closing)
    check_vec_env(kind, "CartPole-v1", [{f"{MODULE}.PreviousActions": {"key": "before"}}], closing)


def test_discrete_actions_are_appended_one_hot_the_latest_at_the_end():
    env = PreviousActions(CountingEnv(length=3), horizon=2)
    for _ in range(2):  # a new episode has no actions of the one before
        assert env.reset()[0].tolist() == [0, 0, *(0, 0, 0), *(0, 0, 0)]
        assert env.step(2)[0].tolist() == [1, 1, *(0, 0, 0), *(0, 0, 1)]
        assert env.step(np.int64(0))[0].tolist() == [2, 2, *(0, 0, 1), *(1, 0, 0)]
        assert env.step(np.array(1))[0].tolist() == [3, 3, *(1, 0, 0), *(0, 1, 0)]


@pytest.mark.parametrize(
    "action, vector",
    [
        (np.array([1, 0]), [0, 1, 1, 0, 0]),
        (np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (np.array([0.5, -0.25], np.float32), [0.5, -0.25]),
    ],
)
def test_other_actions_are_vectors(action, vector):
    (space,) = (space for space in ACTION_SPACES.values() if space.contains(action))
    env = PreviousActions(CountingEnv(space), key="before")
    env.reset()
    np.testing.assert_equal(env.step(action)[0]["before"], np.array(vector, np.float32))


@pytest.mark.parametrize("action, width", WIDTHS.items())
def test_the_vector_is_as_long_as_the_actions_need(action, width):
    env = PreviousActions(random_env("Box", action), horizon=3)
    assert env.observation_space.shape == (4 + 3 * width,)
    assert env.observation_space.dtype == np.float32


def test_bounds_are_those_of_the_actions_and_of_no_action():
    env = PreviousActions(CountingEnv(spaces.Box(np.float32([1, -2]), np.float32([2, 3]))), horizon=2, key="before")
    assert env.observation_space["before"].low.tolist() == [0, -2, 0, -2]
    assert env.observation_space["before"].high.tolist() == [2, 3, 2, 3]


def test_a_vector_of_whole_numbers_becomes_one_of_floats():
    env = RandomEnv(spaces.Box(0, 255, (5,), np.uint8), deepcopy(ACTION_SPACES["Box"]))
    wrapped = PreviousActions(env)
    assert wrapped.observation_space.dtype == wrapped.reset()[0].dtype == np.float32
    assert wrapped.observation_space.high.tolist() == [255] * 5 + [1, 1]


def test_an_observation_that_is_kept_does_not_change():
    env = PreviousActions(CountingEnv(), key="before")
    env.reset()
    kept = env.step(1)[0]
    env.step(2)
    assert kept["before"].tolist() == [0, 1, 0]


def test_a_policy_learns_from_actions_beside_the_observation():
    env = make_vec_env(lambda: PreviousActions(random_env("Discrete"), horizon=2, key="before"), 2, seed=0)
    PPOExt("MultiInputPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(16)


@pytest.mark.parametrize("hide, left", [([1, 3], [0, 2]), ("1:3", [0, 3]), ([0, "-2:"], [1]), (["::2"], [1, 3])])
def test_hidden_numbers_are_zero_or_gone(hide, left):
    plain, masked = random_env(), MaskObservation(random_env(), hide)
    removed = MaskObservation(random_env(), hide, remove=True)
    expected = plain.reset(seed=1)[0]
    np.testing.assert_equal(masked.reset(seed=1)[0], np.where(np.isin(np.arange(4), left), expected, np.float32(0)))
    np.testing.assert_equal(removed.reset(seed=1)[0], expected[left])
    assert masked.observation_space == plain.observation_space
    assert removed.observation_space.shape == (len(left),)


def test_hidden_entries_are_zero_or_gone():
    env = MaskObservation(random_env("Dict"), ["vector"])
    assert env.observation_space == OBSERVATION_SPACES["Dict"]
    observation = env.reset(seed=0)[0]
    assert np.all(observation["vector"] == 0) and observation["vector"].dtype == np.float32
    env = MaskObservation(random_env("Dict"), {"vector": "1:"}, remove=True)
    assert env.observation_space["vector"].shape == (1,) and "number" in env.reset()[0]
    env = MaskObservation(random_env("Dict"), "vector", remove=True)
    assert list(env.observation_space) == list(env.reset()[0]) == ["number"]


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
@pytest.mark.parametrize("stack", ["frame_stack", "FrameStackObservation", "and flattened"])
def test_stacked_vectors_work_with_mlp_policies(algorithm, stack):
    def wrap(env):
        if stack == "frame_stack":
            return env
        env = FrameStackObservation(env, 4)
        return FlattenObservation(env) if stack == "and flattened" else env

    env = make_vec_env("MountainCar-v0", 2, seed=0, wrapper_class=wrap)
    if stack == "frame_stack":
        env = VecFrameStack(env, 4)  # what RL Zoo does with it
    assert np.prod(env.observation_space.shape) == 8
    model = algorithm("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(32)
    assert model.policy.features_extractor.features_dim == 8
    first, second = env.reset(), env.step(np.array([0, 0]))[0]
    np.testing.assert_equal(second.reshape(2, 4, 2)[:, 2], first.reshape(2, 4, 2)[:, 3])
    oldest = first.reshape(2, 4, 2)[:, 0]
    np.testing.assert_equal(oldest, 0 if stack == "frame_stack" else first.reshape(2, 4, 2)[:, 3])


WRONG = [
    (PreviousActions, {"horizon": 0}, "Box", "horizon=0 must be a whole number, at least 1"),
    (PreviousActions, {}, "image", "can only be appended to a vector"),
    (PreviousActions, {}, "Discrete", "Set key, such as previous_actions"),
    (PreviousActions, {"key": "vector"}, "Dict", "key='vector' is already an entry of the observation"),
    (MaskObservation, {"hide": [4]}, "Box", "4 is not an index of a vector of 4 numbers"),
    (MaskObservation, {"hide": ["a:b"]}, "Box", "'a:b' is not an index"),
    (MaskObservation, {"hide": [0.5]}, "Box", "0.5 is not an index"),
    (MaskObservation, {"hide": []}, "Box", "hides nothing"),
    (MaskObservation, {"hide": ":"}, "Box", "leaves nothing to see"),
    (MaskObservation, {"hide": ["vector", "number"], "remove": True}, "Dict", "leaves nothing to see"),
    (MaskObservation, {"hide": {"vector": 0}}, "Box", "names the entries of a Dict"),
    (MaskObservation, {"hide": ["vectro"]}, "Dict", "no entry 'vectro': did you mean 'vector'"),
    (MaskObservation, {"hide": {"number": [0]}}, "Dict", "are indices of a vector"),
    (MaskObservation, {"hide": ["number"]}, "Dict", "use remove=True"),
    (MaskObservation, {"hide": [0]}, "image", "are indices of a vector"),
    (MaskObservation, {"hide": [0], "remove": "yes"}, "Box", "remove='yes' must be True or False"),
]


@pytest.mark.parametrize("wrapper, kwargs, space, message", WRONG)
def test_wrong_values_get_an_error(wrapper, kwargs, space, message):
    with pytest.raises(ValueError, match=message):
        wrapper(random_env(space), **kwargs)


def test_actions_that_are_no_vector_get_an_error():
    with pytest.raises(ValueError, match="can't be flattened into a vector"):
        PreviousActions(CountingEnv(spaces.Sequence(spaces.Discrete(2))))


@pytest.mark.parametrize(
    "wrapper, wrong, right", [(PreviousActions, "horizn", "horizon"), (MaskObservation, "hid", "hide")]
)
def test_wrong_names_get_the_nearest_one(wrapper, wrong, right):
    with pytest.raises(TypeError, match=f"{wrapper.__name__} has no parameter '{wrong}': did you mean '{right}'?"):
        wrapper(random_env(), **{wrong: 1})
