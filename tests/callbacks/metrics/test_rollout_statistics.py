"""Statistics of observations, rewards and actions, against those that NumPy computes."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from sb3_ext.callbacks.metrics.action_statistics import ActionStatistics
from sb3_ext.callbacks.metrics.recent_data import MAX_NUMBERS, RecentData, even_stride, recent_transitions, thinned
from sb3_ext.callbacks.metrics.rollout_statistics import ObservationStatistics, RecentRewards, summarize

RNG = np.random.default_rng(0)


def collected_of(observations, actions=None, n_axes=2):
    first = next(iter(observations.values())) if isinstance(observations, dict) else observations
    if actions is None:
        actions = np.zeros((*first.shape[:n_axes], 1))
    return RecentData(observations, actions, n_axes, first.shape[1])


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_summary_is_what_numpy_says(offset):
    numbers = RNG.normal(size=1000) + offset
    expected = pytest.approx((numbers.mean(), numbers.std(), numbers.min(), numbers.max()))
    assert summarize(numbers) == expected


def test_a_summary_of_numbers_that_are_not_finite_does_not_raise():
    with np.errstate(all="ignore"):
        assert np.isnan(summarize(np.array([1.0, np.nan])).mean)
        assert summarize(np.array([1.0, np.inf])).max == np.inf


@pytest.mark.parametrize("width", [1, 4, 8, 28224])
def test_a_thinned_sample_has_all_features(width):
    array = np.broadcast_to(np.arange(width), (64, 8, width))
    sample = thinned(array, 8 * width)
    assert len(sample) <= MAX_NUMBERS
    n_features = len(np.unique(sample))
    assert n_features == width if width <= 8 else n_features > 0.9 * len(sample)


def test_a_thinned_sample_has_all_environments():
    assert even_stride(1000, 1000, 8) == 1
    stride = even_stride(8 * 1000, 1000, 8)
    assert set(np.arange(0, 8000, stride) % 8) == set(range(8))


def test_observations_of_vectors_are_all_counted():
    observations = RNG.normal(3.0, 2.0, size=(32, 8, 4)).astype(np.float32)
    statistics = ObservationStatistics(spaces.Box(-np.inf, np.inf, (4,)), True)
    metrics = statistics.describe(statistics.sample(collected_of(observations)))
    assert metrics == {
        "env/obs_mean": pytest.approx(observations.mean(), rel=1e-5),
        "env/obs_std": pytest.approx(observations.std(), rel=1e-5),
        "env/obs_min": observations.min(),
        "env/obs_max": observations.max(),
    }


@pytest.mark.parametrize(("normalize_images", "largest"), [(True, 1.0), (False, 255.0)])
def test_pixels_are_counted_as_the_policy_sees_them(normalize_images, largest):
    images = RNG.integers(0, 256, size=(16, 4, 1, 36, 36), dtype=np.uint8)
    statistics = ObservationStatistics(spaces.Box(0, 255, (1, 36, 36), np.uint8), normalize_images)
    metrics = statistics.describe(statistics.sample(collected_of(images)))
    assert metrics["env/obs_max"] == pytest.approx(largest, rel=0.01)
    assert metrics["env/obs_mean"] == pytest.approx(largest / 2, rel=0.02)


def test_parts_of_an_observation_are_counted_together_and_numbers_of_states_are_not():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "b": spaces.MultiBinary(2), "c": spaces.Discrete(500)})
    observations = {
        "a": RNG.uniform(-1, 1, (10, 2, 3)).astype(np.float32),
        "b": RNG.integers(0, 2, (10, 2, 2), dtype=np.int8),
        "c": np.full((10, 2, 1), 400),
    }
    statistics = ObservationStatistics(space, True)
    metrics = statistics.describe(statistics.sample(collected_of(observations)))
    both = np.concatenate([observations["a"].ravel(), observations["b"].ravel()])
    assert metrics["env/obs_mean"] == pytest.approx(both.mean(), rel=1e-5)
    assert metrics["env/obs_max"] == 1.0


def test_states_that_are_only_numbers_have_a_histogram_alone():
    statistics = ObservationStatistics(spaces.Discrete(16), True)
    states = RNG.integers(0, 16, (10, 2, 1))
    sample = statistics.sample(collected_of(states))
    assert sorted(sample) == sorted(states.ravel())
    assert statistics.describe(sample) == {}


def test_rewards_are_those_since_they_were_last_taken():
    rewards = RecentRewards(2)
    for step in range(5):
        rewards.add(np.array([step, 10 * step]))
    assert sorted(rewards.take()) == [0, 0, 1, 2, 3, 4, 10, 20, 30, 40]
    assert rewards.take().size == 0
    rewards.add(np.array([7.0, 8.0]))
    assert sorted(rewards.take()) == [7.0, 8.0]


def test_of_very_many_rewards_the_latest_are_kept():
    rewards = RecentRewards(1024)
    for step in range(100):
        rewards.add(np.full(1024, step))
    assert set(rewards.take()) == set(range(68, 100))


def test_gaussian_actions_beyond_their_bounds_are_saturated():
    space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 2.0], np.float32))
    actions = np.array([[[-1.5, 1.0]], [[0.0, 2.0]], [[0.5, 0.5]], [[1.0, 0.0]]], np.float32)
    statistics = ActionStatistics(space, squashed=False)
    metrics = statistics.describe(statistics.sample(collected_of(actions, actions)))
    assert metrics == {
        "policy/action_mean": pytest.approx(actions.mean()),
        "policy/action_std": pytest.approx(actions.std()),
        "policy/action_min": -1.5,
        "policy/action_max": 2.0,
        "policy/action_saturation": 4 / 8,
    }


def test_squashed_actions_near_their_bounds_are_saturated_and_told_in_units_of_the_space():
    actions = np.array([[[-0.995]], [[0.0]], [[0.98]], [[1.0]]], np.float32)
    statistics = ActionStatistics(spaces.Box(10.0, 30.0, (1,), np.float32), squashed=True)
    metrics = statistics.describe(statistics.sample(collected_of(actions, actions)))
    assert metrics["policy/action_saturation"] == 0.5
    assert metrics["policy/action_max"] == pytest.approx(30.0)
    assert metrics["policy/action_mean"] == pytest.approx(20 + 10 * actions.mean(), rel=1e-5)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(5), spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3)],
    ids=["Discrete", "MultiDiscrete", "MultiBinary"],
)
def test_actions_without_bounds_are_never_saturated(space):
    actions = np.array([space.sample() for _ in range(60)]).reshape(20, 3, -1)
    statistics = ActionStatistics(space, squashed=True)
    sample = statistics.sample(collected_of(actions, actions))
    assert statistics.describe(sample) == {
        "policy/action_mean": pytest.approx(actions.mean()),
        "policy/action_std": pytest.approx(actions.std()),
        "policy/action_min": actions.min(),
        "policy/action_max": actions.max(),
    }
    assert sorted(statistics.numbers(sample)) == sorted(actions.ravel())


@pytest.mark.parametrize("is_dict", [False, True])
def test_the_latest_transitions_are_found_also_when_the_replay_buffer_starts_over(is_dict):
    part = spaces.Box(-np.inf, np.inf, (1,))
    space = spaces.Dict({"x": part}) if is_dict else part
    buffer_class = DictReplayBuffer if is_dict else ReplayBuffer
    buffer = buffer_class(20, space, spaces.Discrete(2), device="cpu", n_envs=2)
    assert recent_transitions(buffer, 5, None) is None
    for step in range(13):  # it holds 10 steps of both environments
        observation = np.array([[step], [step]], np.float32)
        observation = {"x": observation} if is_dict else observation
        buffer.add(observation, observation, np.zeros(2), np.zeros(2), np.zeros(2), [{}, {}])
    latest = recent_transitions(buffer, 5, None)
    observations = latest.observations["x"] if is_dict else latest.observations
    assert sorted(observations.ravel()) == [8, 8, 9, 9, 10, 10, 11, 11, 12, 12]
    assert latest.size == 10
    everything = recent_transitions(buffer, 100, None)
    assert everything.size == 20


def test_of_large_observations_few_are_read():
    buffer = ReplayBuffer(500, spaces.Box(0, 255, (3, 100, 100), np.uint8), spaces.Discrete(2), n_envs=1)
    buffer.pos = 400
    assert recent_transitions(buffer, 400, None).size <= 2_000_000 // 30_000
