"""The buffer gives out each step once, with the return of its whole episode."""

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES
from gymnasium import spaces

from sb3_ext.reinforce.episode_buffer import DictEpisodeBuffer, EpisodeBuffer

GAMMA = 0.9


class Collector:
    """Fills a buffer as SB3's ``collect_rollouts`` does; each step's observation is its serial number."""

    def __init__(self, episode_lengths, n_steps, **kwargs):
        self.n_envs = len(episode_lengths)
        space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.buffer = EpisodeBuffer(
            n_steps, space, spaces.Discrete(2), "cpu", gamma=GAMMA, n_envs=self.n_envs, **kwargs
        )
        self._remaining = [list(lengths) for lengths in episode_lengths]
        self._left = [lengths.pop(0) for lengths in self._remaining]
        self._starts = np.ones(self.n_envs)
        self._serial = 0

    def reset_environments(self):
        self._starts = np.ones(self.n_envs)

    def collect(self, last_value=0.0):
        self.buffer.reset()
        for _ in range(self.buffer.buffer_size):
            obs = np.arange(self.n_envs, dtype=np.float32).reshape(-1, 1) + self._serial
            self._serial += self.n_envs
            self._left = [left - 1 for left in self._left]
            dones = np.array([left == 0 for left in self._left])
            self.buffer.add(obs, np.zeros((self.n_envs, 1)), np.ones(self.n_envs), self._starts,
                            th.zeros(self.n_envs), th.zeros(self.n_envs))  # fmt: skip
            for env in np.flatnonzero(dones):
                self._left[env] = self._remaining[env].pop(0)
            self._starts = dones
        self.buffer.compute_returns_and_advantage(th.ones(self.n_envs, 1) * last_value, dones)
        batches = list(self.buffer.get())
        return {
            int(obs): float(ret)
            for batch in batches
            for obs, ret in zip(batch.observations, batch.returns, strict=True)
        }


def whole_episode(length):
    """The returns of an episode with reward 1 at each step."""
    return [sum(GAMMA**i for i in range(length - step)) for step in range(length)]


def test_an_episode_that_the_rollout_cuts_is_carried_over_whole():
    collector = Collector([[5, 100]], n_steps=3)
    assert collector.collect() == {}
    assert collector.buffer.n_waiting == 3
    second = collector.collect()
    assert sorted(second) == [0, 1, 2, 3, 4]
    assert [second[step] for step in range(5)] == pytest.approx(whole_episode(5))
    assert collector.buffer.n_waiting == 1


def test_each_step_is_given_out_exactly_once_across_environments_and_rollouts():
    collector = Collector([[4, 3, 9, 50], [7, 7, 7, 50], [1, 2, 3, 4, 50]], n_steps=4)
    seen = []
    for _ in range(6):
        seen += list(collector.collect())
    assert len(seen) == len(set(seen))
    assert len(seen) + collector.buffer.n_waiting == 6 * 4 * 3


def test_an_episode_that_ends_with_the_rollout_does_not_wait():
    collector = Collector([[3, 3, 9]], n_steps=3)
    returns = collector.collect()
    assert [returns[step] for step in range(3)] == pytest.approx(whole_episode(3))
    assert collector.buffer.n_waiting == 0


def test_episodes_are_counted():
    collector = Collector([[2, 2, 9], [1, 1, 1, 9]], n_steps=4)
    collector.collect()
    assert collector.buffer.n_episodes == 5


def test_an_episode_that_a_reset_abandons_is_bootstrapped_and_not_joined_to_the_next():
    collector = Collector([[100, 2, 100]], n_steps=2)
    collector.collect(last_value=10.0)
    collector.reset_environments()
    returns = collector.collect()
    assert [returns[0], returns[1]] == pytest.approx([1 + GAMMA * (1 + GAMMA * 10.0), 1 + GAMMA * 10.0])
    assert collector.buffer.n_waiting == 2


def test_a_long_episode_is_given_out_in_bootstrapped_parts():
    collector = Collector([[100]], n_steps=2, max_episode_steps=4)
    assert collector.collect(last_value=7.0) == {}
    returns = collector.collect(last_value=10.0)
    assert returns[3] == pytest.approx(1 + GAMMA * 10.0)
    assert returns[0] == pytest.approx(1 + GAMMA * (1 + GAMMA * (1 + GAMMA * (1 + GAMMA * 10.0))))
    assert collector.buffer.n_waiting == 0


def test_the_short_start_of_an_episode_waits_even_after_a_long_one():
    collector = Collector([[5, 100]], n_steps=6, max_episode_steps=4)
    returns = collector.collect(last_value=10.0)
    assert [returns[step] for step in range(5)] == pytest.approx(whole_episode(5))
    assert len(returns) == 5
    assert collector.buffer.n_waiting == 1


def test_an_episode_that_ends_at_the_largest_length_is_not_bootstrapped():
    collector = Collector([[4, 100]], n_steps=2, max_episode_steps=4)
    collector.collect(last_value=10.0)
    returns = collector.collect(last_value=10.0)
    assert [returns[step] for step in range(4)] == pytest.approx(whole_episode(4))


def test_environments_are_bootstrapped_from_their_own_values():
    collector = Collector([[100], [100]], n_steps=2, max_episode_steps=2)
    returns = collector.collect(last_value=th.tensor([[10.0], [20.0]]))
    assert [returns[2], returns[3]] == pytest.approx([1 + GAMMA * 10.0, 1 + GAMMA * 20.0])


@pytest.mark.parametrize(("batch_size", "sizes"), [(None, [10]), (4, [5, 5]), (3, [3, 3, 4]), (10, [10]), (100, [10])])
def test_minibatches_split_the_steps_evenly(batch_size, sizes):
    collector = Collector([[10, 99]], n_steps=10)
    collector.collect()
    batches = list(collector.buffer.get(batch_size))
    assert sorted(len(batch.returns) for batch in batches) == sizes
    assert sorted(int(obs) for batch in batches for obs in batch.observations) == list(range(10))


def test_dict_observations_stay_with_their_step():
    space = OBSERVATION_SPACES["Dict"]
    buffer = DictEpisodeBuffer(2, space, ACTION_SPACES["Box"], "cpu", gamma=GAMMA, n_envs=2)
    starts = np.ones(2)
    for rollout in range(2):
        buffer.reset()
        for step in range(2):
            serial = 10 * rollout + step
            obs = {"vector": np.full((2, 3), serial, np.float32), "number": np.array([serial % 4, serial % 4])}
            buffer.add(obs, np.full((2, 2), serial), np.full(2, serial), starts, th.zeros(2), th.zeros(2))
            dones = np.array([rollout == 1 and step == 1, False])
            starts = dones
        buffer.compute_returns_and_advantage(th.zeros(2, 1), dones)
    (batch,) = buffer.get()
    assert sorted(batch.observations["vector"][:, 0].tolist()) == [0, 1, 10, 11]
    assert th.equal(batch.observations["vector"][:, 0], batch.actions[:, 0])
    assert th.equal(batch.observations["vector"][:, 0] % 4, batch.observations["number"].flatten().float())
    assert buffer.n_waiting == 4
