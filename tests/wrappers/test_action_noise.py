"""Actions that are not always the agent's."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES
from gymnasium import spaces
from noise_checks import VEC_ENVS, CountingEnv, check_vec_env, check_wrapped, differs, random_env, trajectory

from sb3_ext.wrappers.noise import ActionNoise, StickyActions

MODULE = "sb3_ext.wrappers.noise"


def with_noise(env):
    return ActionNoise(env, **({"std": 0.5} if isinstance(env.action_space, spaces.Box) else {"probability": 0.5}))


WRAPPERS = {"noise": with_noise, "sticky": lambda env: StickyActions(env, 0.5)}
every_pair = [(space, wrapper) for space in ACTION_SPACES for wrapper in WRAPPERS]


@pytest.mark.parametrize("space, wrapper", every_pair)
def test_both_checkers_pass(space, wrapper):
    check_wrapped(WRAPPERS[wrapper](random_env(action=space)))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_real_environment_passes_and_its_spec_makes_it_again(env_id, wrapper):
    env = WRAPPERS[wrapper](gym.make(env_id))
    check_wrapped(env)
    np.testing.assert_equal(trajectory(env.spec.make(), 3), trajectory(env, 3))


@pytest.mark.parametrize("space, wrapper", every_pair)
def test_seeds_reproduce_the_actions_taken(space, wrapper):
    def taken(seed):
        env = WRAPPERS[wrapper](CountingEnv(ACTION_SPACES[space]))
        env.action_space.seed(0)
        env.reset(seed=seed)
        for _ in range(40):
            env.step(env.action_space.sample())
        return env.unwrapped.actions

    np.testing.assert_equal(taken(1), taken(1))
    assert differs(taken(1), taken(2))


@pytest.mark.parametrize("kind", VEC_ENVS)
@pytest.mark.parametrize("env_id, noise", [("CartPole-v1", {"probability": 0.3}), ("Pendulum-v1", {"std": 0.3})])
def test_vectorised_environments_give_the_same(kind, env_id, noise, closing):
    wrappers = [{f"{MODULE}.StickyActions": {"probability": 0.3}}, {f"{MODULE}.ActionNoise": noise}]
    check_vec_env(kind, env_id, wrappers, closing)


def test_the_environment_below_is_not_disturbed():
    env, plain = StickyActions(with_noise(gym.make("CartPole-v1")), 0.5), gym.make("CartPole-v1")
    for current in (env, plain):
        current.reset(seed=4)
        current.step(0)
    assert env.unwrapped.np_random.random() == plain.unwrapped.np_random.random()


def taken_actions(env, action, n_steps=4000):
    env.reset(seed=0)
    for _ in range(n_steps):
        env.step(deepcopy(action))
    return np.array(env.unwrapped.actions)


@pytest.mark.parametrize("space", [spaces.Discrete(3, start=5), spaces.MultiDiscrete([2, 3], start=[4, -1])])
def test_random_actions_are_all_those_of_a_space_that_does_not_start_at_zero(space):
    taken = taken_actions(ActionNoise(CountingEnv(space), probability=1.0), space.sample(), n_steps=200)
    sizes = np.atleast_1d(space.n if isinstance(space, spaces.Discrete) else space.nvec)
    expected = [np.arange(start, start + size) for start, size in zip(np.atleast_1d(space.start), sizes, strict=True)]
    np.testing.assert_equal([np.unique(column) for column in taken.reshape(200, -1).T], expected)


@pytest.mark.parametrize("std", [0.1, [0.1, 0.0]])
def test_noise_of_a_box_has_the_wanted_deviation(std):
    taken = taken_actions(ActionNoise(CountingEnv(ACTION_SPACES["Box"]), std=std), np.array([0.2, -0.2], np.float32))
    np.testing.assert_allclose(taken.std(axis=0, dtype=np.float64), np.broadcast_to(std, 2), rtol=0.05, atol=1e-6)
    np.testing.assert_allclose(taken.mean(axis=0), [0.2, -0.2], atol=0.01)


def test_noise_of_a_box_stays_within_its_bounds():
    taken = taken_actions(ActionNoise(CountingEnv(ACTION_SPACES["Box"]), std=3), np.array([0.2, -0.2], np.float32), 200)
    assert taken.min() == -1 and taken.max() == 1 and taken.dtype == np.float32


@pytest.mark.parametrize(
    "space, action, n_choices",
    [
        (spaces.Discrete(3), np.int64(1), 3),
        (spaces.Discrete(3, start=-1), np.int64(-1), 3),
        (spaces.MultiDiscrete([4, 4]), np.array([0, 3]), 4),
        (spaces.MultiBinary(3), np.array([0, 1, 1], np.int8), 2),
    ],
)
def test_discrete_parts_are_replaced_by_any_other(space, action, n_choices):
    taken = taken_actions(ActionNoise(CountingEnv(space), probability=0.6), action)
    changed = (taken != action).mean(axis=0)
    np.testing.assert_allclose(changed, 0.6 * (1 - 1 / n_choices), atol=0.03)
    assert all(len(np.unique(part)) == n_choices for part in taken.reshape(4000, -1).T)


def test_parts_of_an_action_can_have_probabilities_of_their_own():
    env = ActionNoise(CountingEnv(spaces.MultiBinary(3)), probability=[0, 1, 0.5])
    changed = taken_actions(env, np.zeros(3, np.int8)).mean(axis=0)
    np.testing.assert_allclose(changed, [0, 0.5, 0.25], atol=0.03)


@pytest.mark.parametrize("space", [*ACTION_SPACES.values(), spaces.Dict({"a": spaces.Discrete(9)})], ids=str)
def test_a_sticky_action_is_the_one_taken_before(space):
    env = StickyActions(CountingEnv(space), 0.4)
    env.action_space.seed(0)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(1000)]
    for action in actions:
        env.step(action)
    wanted, taken = (np.array([spaces.flatten(space, one) for one in all]) for all in (actions, env.unwrapped.actions))
    assert np.all(taken[0] == wanted[0])
    others = [index for index in range(1, 1000) if np.any(taken[index - 1] != wanted[index])]
    stuck = [index for index in others if np.any(taken[index] != wanted[index])]
    assert all(np.all(taken[index] == taken[index - 1]) for index in stuck)
    assert len(stuck) / len(others) == pytest.approx(0.4, abs=0.06)


def test_nothing_sticks_over_the_end_of_an_episode():
    env = StickyActions(CountingEnv(), 1)
    for action in (0, 2):
        env.reset()
        for later in (1, 1):
            env.step(action)
            action = later
    assert env.unwrapped.actions == [0, 0, 2, 2]


def test_an_array_that_is_used_again_does_not_change_the_sticky_action():
    env = StickyActions(CountingEnv(ACTION_SPACES["Box"]), 1)
    env.reset()
    action = np.array([0.5, 0.5], np.float32)
    env.step(action)
    action[:] = -1
    env.step(action)
    np.testing.assert_equal(env.unwrapped.actions[1], np.array([0.5, 0.5], np.float32))


WRONG = [
    (ActionNoise, {"std": 0.1}, "Discrete", "ActionNoise needs probability, not std, for actions in Discrete"),
    (ActionNoise, {"probability": 0.1}, "Box", "ActionNoise needs std, not probability"),
    (ActionNoise, {}, "Box", "ActionNoise needs std"),
    (ActionNoise, {"std": 0.1, "probability": 0.1}, "Box", "ActionNoise needs std, not probability"),
    (ActionNoise, {"std": -0.1}, "Box", "std=-0.1 must be 0 or more"),
    (ActionNoise, {"std": [1, 2, 3]}, "Box", r"has the shape \(3,\)"),
    (ActionNoise, {"probability": 2}, "MultiBinary", "probability=2 must be 0 to 1"),
    (StickyActions, {"probability": -0.1}, "Discrete", "probability=-0.1 must be a probability"),
    (StickyActions, {"probability": "often"}, "Discrete", "probability='often' must be a number"),
]


@pytest.mark.parametrize("wrapper, kwargs, space, message", WRONG)
def test_wrong_values_get_an_error(wrapper, kwargs, space, message):
    with pytest.raises(ValueError, match=message):
        wrapper(random_env(action=space), **kwargs)


def test_spaces_without_a_meaning_for_noise_get_an_error():
    with pytest.raises(ValueError, match="probability is for actions in a Box of floats, Discrete"):
        ActionNoise(CountingEnv(spaces.Tuple([spaces.Discrete(2)])), probability=0.5)
    with pytest.raises(ValueError, match="std is for actions in a Box of floats"):
        ActionNoise(CountingEnv(spaces.Box(0, 5, (2,), np.int32)), std=0.5)


@pytest.mark.parametrize("wrapper", [ActionNoise, StickyActions])
def test_wrong_names_get_the_nearest_one(wrapper):
    with pytest.raises(TypeError, match=f"{wrapper.__name__} has no parameter 'prob': did you mean 'probability'?"):
        wrapper(random_env(), prob=0.1)
