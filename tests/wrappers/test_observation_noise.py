"""Noisy, incomplete and late observations."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, RandomEnv
from gymnasium import spaces
from noise_checks import VEC_ENVS, CountingEnv, check_vec_env, check_wrapped, differs, random_env, trajectory

from sb3_ext.wrappers.noise import ObservationDelay, ObservationDropout, ObservationNoise

WRAPPERS = {
    "noise": lambda env: ObservationNoise(env, std=0.5),
    "noise without bounds": lambda env: ObservationNoise(env, std=0.5, clip=False),
    "dropout, zero": lambda env: ObservationDropout(env, probability=0.3),
    "dropout, last": lambda env: ObservationDropout(env, probability=0.3, fill="last"),
    "delay": lambda env: ObservationDelay(env, delay=2),
}
FITS = {
    "Box": list(WRAPPERS),
    "Dict": list(WRAPPERS),
    "Discrete": ["dropout, last", "delay"],
    "image": ["dropout, zero", "dropout, last", "delay"],
}
PAIRS = [(space, wrapper) for space, wrappers in FITS.items() for wrapper in wrappers]


@pytest.mark.parametrize("space, wrapper", PAIRS)
def test_both_checkers_pass(space, wrapper):
    check_wrapped(WRAPPERS[wrapper](random_env(space)))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_real_environment_passes_and_its_spec_makes_it_again(wrapper):
    env = WRAPPERS[wrapper](gym.make("CartPole-v1"))
    check_wrapped(env)
    np.testing.assert_equal(trajectory(env.spec.make(), 3), trajectory(env, 3))


@pytest.mark.parametrize("space, wrapper", PAIRS)
def test_seeds_reproduce_trajectories(space, wrapper):
    runs = [trajectory(WRAPPERS[wrapper](random_env(space)), seed) for seed in (1, 1, 2)]
    np.testing.assert_equal(runs[0], runs[1])
    assert differs(runs[0], runs[2])


@pytest.mark.parametrize("kind", VEC_ENVS)
def test_vectorised_environments_give_the_same(kind, closing):
    module = "sb3_ext.wrappers.noise"
    wrappers = [
        {f"{module}.ObservationNoise": {"std": [0.1, 0, 0.2, 0.3]}},
        {f"{module}.ObservationDropout": {"probability": 0.2, "fill": "last"}},
        {f"{module}.ObservationDelay": {"delay": 1}},
    ]
    check_vec_env(kind, "CartPole-v1", wrappers, closing)


def test_the_environment_below_is_not_disturbed():
    env, plain = ObservationDropout(ObservationNoise(gym.make("CartPole-v1"), std=0.1), 0.5), gym.make("CartPole-v1")
    for current in (env, plain):
        trajectory(current, 4)
    assert env.unwrapped.np_random.random() == plain.unwrapped.np_random.random()


def test_without_a_seed_environments_differ_and_later_resets_go_on():
    first, second = (ObservationNoise(CountingEnv(), std=1.0) for _ in range(2))
    assert differs(first.reset()[0], second.reset()[0])
    assert differs(first.reset(seed=1)[0], first.reset()[0])


def test_two_of_the_same_kind_have_different_noise():
    once = ObservationNoise(CountingEnv(), std=1.0)
    twice = ObservationNoise(ObservationNoise(CountingEnv(), std=1.0), std=1.0)
    noise, sum_of_two = once.reset(seed=5)[0], twice.reset(seed=5)[0]
    assert np.all(np.abs(sum_of_two - 2 * noise) > 1e-3)


def noises(env, n_steps=4000):
    env.reset(seed=0)
    return np.array([env.step(0)[0] for _ in range(n_steps)]) - np.arange(1, n_steps + 1)[:, None]


@pytest.mark.parametrize("std", [0.5, [0.5, 2.0], ["5e-1", 0]])
def test_the_noise_has_the_wanted_deviation(std):
    found = noises(ObservationNoise(CountingEnv(), std=std))
    np.testing.assert_allclose(found.std(axis=0), np.broadcast_to(np.asarray(std, dtype=float), 2), rtol=0.05)
    assert np.all(np.abs(found.mean(axis=0)) < 0.1)


def test_noise_stays_within_bounds_unless_it_may_leave_them():
    clipped = ObservationNoise(random_env(), std=2.0)
    free = ObservationNoise(random_env(), std=[2.0, 0, 2.0, 2.0], clip=False)
    assert clipped.observation_space == random_env().observation_space
    assert np.isinf(free.observation_space.high).tolist() == [True, False, True, True]
    for env, may_leave in ((clipped, False), (free, True)):
        env.reset(seed=0)
        seen = np.array([env.step(0)[0] for _ in range(100)])
        assert (np.abs(seen).max() > 1) == may_leave
        assert seen.dtype == np.float32


def test_noise_for_one_entry_leaves_the_others_alone():
    space = spaces.Dict({"near": spaces.Box(-1, 1, (2,)), "far": spaces.Box(-1, 1, (2,)), "n": spaces.Discrete(3)})
    plain = RandomEnv(deepcopy(space), deepcopy(ACTION_SPACES["Discrete"]))
    noisy = ObservationNoise(RandomEnv(deepcopy(space), deepcopy(ACTION_SPACES["Discrete"])), std={"far": 0.1})
    before, after = plain.reset(seed=1)[0], noisy.reset(seed=1)[0]
    np.testing.assert_equal({**after, "far": None}, {**before, "far": None})
    assert np.all(before["far"] != after["far"])


@pytest.mark.parametrize("probability", [0.2, [0.0, 0.7], 1])
def test_parts_are_hidden_as_often_as_wanted(probability):
    env = ObservationDropout(CountingEnv(), probability)
    env.reset(seed=0)
    seen = np.array([env.step(0)[0] for _ in range(4000)])
    np.testing.assert_allclose((seen == 0).mean(axis=0), np.broadcast_to(probability, 2), atol=0.03)
    steps = np.arange(1, 4001)[:, None]
    assert np.all((seen == 0) | (seen == steps))


def test_a_hidden_part_is_the_value_seen_before():
    env = ObservationDropout(CountingEnv(length=50), 0.5, fill="last")
    for _ in range(3):
        before, step = env.reset()[0], 0
        assert np.all(before == 0)
        for step in range(1, 50):
            seen = env.step(0)[0]
            assert np.all((seen == step) | (seen == before))
            before = seen


def test_zero_is_in_the_space_of_what_may_be_hidden():
    env = RandomEnv(spaces.Box(2.0, 3.0, (2,), np.float32), deepcopy(ACTION_SPACES["Discrete"]))
    assert ObservationDropout(env, 0.5).observation_space == spaces.Box(0.0, 3.0, (2,), np.float32)
    assert ObservationDropout(env, 0.5, fill="last").observation_space == env.observation_space


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_observations_arrive_late_and_the_first_is_repeated(delay):
    env = ObservationDelay(CountingEnv(length=9), delay)
    for _ in range(2):
        seen = [env.reset()[0][0]] + [env.step(0)[0][0] for _ in range(9)]
        assert seen == [0] * delay + list(range(10 - delay))


def test_rewards_are_not_late():
    env = ObservationDelay(CountingEnv(), 2)
    env.reset()
    assert [env.step(0)[1] for _ in range(4)] == [1, 2, 3, 4]


WRONG = [
    (ObservationNoise, {"std": -1}, "Box", "std=-1 must be 0 or more"),
    (ObservationNoise, {"std": "much"}, "Box", "std='much' must be a number"),
    (ObservationNoise, {"std": [1, 2]}, "Box", r"has the shape \(2,\), but the part has \(4,\)"),
    (ObservationNoise, {"std": 1}, "image", "std is for Boxes of floats"),
    (ObservationNoise, {"std": 1}, "Discrete", "std is for Boxes of floats"),
    (ObservationNoise, {"std": {"vector": 1}}, "Box", "names the entries of a Dict"),
    (ObservationNoise, {"std": {"vektor": 1}}, "Dict", "no entry 'vektor': did you mean 'vector'?"),
    (ObservationNoise, {"std": {"number": 1}}, "Dict", "the entry 'number' is Discrete"),
    (ObservationNoise, {"std": 1, "clip": "no"}, "Box", "clip='no' must be True or False"),
    (ObservationDropout, {"probability": 1.5}, "Box", "probability=1.5 must be 0 to 1"),
    (ObservationDropout, {"probability": 0.5, "fill": "zeros"}, "Box", "did you mean 'zero'"),
    (ObservationDropout, {"probability": 0.5}, "Discrete", "probability is for Box and MultiBinary, Discrete"),
    (ObservationDelay, {"delay": -1}, "Box", "delay=-1 must be a whole number, at least 0"),
    (ObservationDelay, {"delay": 1.5}, "Box", "delay=1.5 must be a whole number"),
]


@pytest.mark.parametrize("wrapper, kwargs, space, message", WRONG)
def test_wrong_values_get_an_error(wrapper, kwargs, space, message):
    with pytest.raises(ValueError, match=message):
        wrapper(random_env(space), **kwargs)


@pytest.mark.parametrize(
    "wrapper, wrong, right",
    [
        (ObservationNoise, "sdt", "std"),
        (ObservationDropout, "probabilty", "probability"),
        (ObservationDelay, "delays", "delay"),
    ],
)
def test_wrong_names_get_the_nearest_one(wrapper, wrong, right):
    with pytest.raises(TypeError, match=f"{wrapper.__name__} has no parameter '{wrong}': did you mean '{right}'?"):
        wrapper(random_env(), **{wrong: 1})
