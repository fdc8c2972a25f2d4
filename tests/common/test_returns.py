"""Reward-to-go against a slow reference that looks at each episode by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sb3_ext.common.returns import reward_to_go

lengths = st.integers(1, 40)


def reference(rewards, ends, gamma):
    """The sum, written out, from each step to the end of its episode (or of the data)."""
    returns = []
    for step in range(len(rewards)):
        last = next((i for i in range(step, len(rewards)) if ends[i]), len(rewards) - 1)
        returns.append(sum(gamma ** (i - step) * rewards[i] for i in range(step, last + 1)))
    return returns


@given(st.data(), st.floats(0, 1))
def test_it_equals_the_sum_written_out(data, gamma):
    n = data.draw(lengths)
    rewards = data.draw(hnp.arrays(np.float32, n, elements=st.floats(-100, 100, width=32)))
    ends = data.draw(hnp.arrays(np.bool_, n))
    np.testing.assert_allclose(
        reward_to_go(rewards, ends, gamma), reference(rewards, ends, gamma), rtol=1e-4, atol=1e-3
    )


@given(st.data(), st.floats(0, 1))
def test_nothing_leaks_from_a_later_episode(data, gamma):
    n = data.draw(lengths)
    end = data.draw(st.integers(0, n - 1))
    rewards = np.ones(n, dtype=np.float32)
    ends = np.zeros(n, dtype=bool)
    ends[end] = True
    changed = rewards.copy()
    changed[end + 1 :] = 1e6
    before, after = reward_to_go(rewards, ends, gamma), reward_to_go(changed, ends, gamma)
    np.testing.assert_array_equal(before[: end + 1], after[: end + 1])


def test_no_steps_give_no_returns():
    assert len(reward_to_go(np.zeros(0), np.zeros(0, dtype=bool), 0.9)) == 0
