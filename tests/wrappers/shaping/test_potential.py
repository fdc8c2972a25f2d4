"""Potential-based shaping leaves the best policy and the order of returns as they are; a plain bonus does not."""

import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext.wrappers.shaping.potential import PotentialShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms

GAMMA = 0.9
N_STATES = 7
#: Bad advice: it is highest near the wrong end
POTENTIAL = [3.0, 8.0, 5.0, 0.5, 1.0, -4.0, 7.0]


class Corridor(gym.Env):
    """
    States in a row. An action goes left, stays or goes right, and costs 0.1; the right end terminates with 10, the left
    end with 1. ``options={"state": …}`` starts somewhere else.
    """

    observation_space = gym.spaces.Discrete(N_STATES)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state = (options or {}).get("state", 3)
        return self._state, {}

    def step(self, action):
        self._state += action - 1
        ends = {0: 1.0, N_STATES - 1: 10.0}
        return self._state, ends.get(self._state, 0.0) - 0.1, self._state in ends, False, {}


def phi(observation, info):
    return POTENTIAL[observation]


def shaped(gamma=GAMMA, weight=1.0, env=None):
    return PotentialShaping(env or Corridor(), {"phi": weight}, gamma=gamma, potentials={"phi": phi})


def best_actions(env):
    """All best actions of each state that is no end, from the rewards that the environment gives."""
    values = np.zeros(N_STATES)
    inner = range(1, N_STATES - 1)
    transitions = {}
    for state in inner:
        for action in range(3):
            env.reset(seed=0, options={"state": state})
            transitions[state, action] = env.step(action)[:3]
    for _ in range(500):
        gains = np.array(
            [
                [reward + GAMMA * (0.0 if ended else values[after]) for after, reward, ended in row]
                for row in ([transitions[state, action] for action in range(3)] for state in inner)
            ]
        )
        values[1:-1] = gains.max(axis=1)
    return [set(np.flatnonzero(np.isclose(row, row.max())).tolist()) for row in gains]


def discounted_return(env, actions, gamma=GAMMA):
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in actions]
    return sum(gamma**step * reward for step, reward in enumerate(rewards))


def test_the_best_policy_is_unchanged():
    assert best_actions(shaped()) == best_actions(Corridor())


@pytest.mark.parametrize("weight", [-5.0, 0.1, 100.0])
def test_the_best_policy_is_unchanged_with_any_weight(weight):
    assert best_actions(shaped(weight=weight)) == best_actions(Corridor())


def test_the_same_potential_as_a_plain_bonus_changes_the_best_policy():
    bonus = RewardTerms(Corridor(), {"phi": 1.0}, {"phi": lambda step: POTENTIAL[step.observation]})
    assert best_actions(bonus) != best_actions(Corridor())


def test_another_discount_than_the_algorithms_changes_the_best_policy():
    assert best_actions(shaped(gamma=0.5)) != best_actions(Corridor())


@pytest.mark.parametrize("actions", [(2, 2, 2), (0, 0, 0), (1, 1, 2, 0, 2, 2, 2)])
def test_returns_of_terminated_episodes_differ_by_the_first_states_potential(actions):
    difference = discounted_return(shaped(), actions) - discounted_return(Corridor(), actions)
    assert difference == pytest.approx(-POTENTIAL[3])


def test_a_truncated_episode_keeps_the_potential_of_its_last_state():
    actions = (2, 0, 2)
    env = shaped(env=gym.wrappers.TimeLimit(Corridor(), len(actions)))
    difference = discounted_return(env, actions) - discounted_return(Corridor(), actions)
    assert difference == pytest.approx(GAMMA ** len(actions) * POTENTIAL[4] - POTENTIAL[3])


def test_an_episode_starts_from_its_own_first_state():
    env = shaped()
    env.reset(seed=0, options={"state": 1})
    env.step(2)
    env.reset(options={"state": 5})
    assert env.step(0)[1] == pytest.approx(-0.1 + GAMMA * POTENTIAL[4] - POTENTIAL[5])


def test_a_subclass_has_its_potentials_as_methods():
    class Shaping(PotentialShaping):
        def potential_place(self, observation, info):
            return observation

        def term_waste(self, step):
            return -1.0

    env = Shaping(Corridor(), {"place": 1.0, "waste": 0.5}, gamma=GAMMA)
    env.reset(seed=0)
    assert env.step(2)[1] == pytest.approx(-0.1 + GAMMA * 4 - 3 - 0.5)
    with pytest.raises(ValueError, match="did you mean 'place'"):
        Shaping(Corridor(), {"plase": 1.0})


def test_the_training_tells_the_discount_to_shapers_in_each_other():
    def make():
        return shaped(gamma=None, env=shaped(gamma=None))

    env = make_vec_env(make, 2, seed=0)
    env.env_method("set_discount", GAMMA)
    env.reset()
    _, rewards, _, _ = env.step(np.array([2, 2]))
    assert rewards == pytest.approx(-0.1 + 2 * (GAMMA * POTENTIAL[4] - POTENTIAL[3]))


def test_without_a_discount_nothing_is_added_and_a_warning_says_so_once():
    env = shaped(gamma=None)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="doesn't know the discount"):
        assert env.step(2)[1] == -0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(2)
        env.set_discount(GAMMA)
        # As if it had been known from the start
        assert env.step(0)[1] == pytest.approx(-0.1 + GAMMA * POTENTIAL[4] - POTENTIAL[5])


def test_a_discount_that_was_given_stays_and_a_mismatch_is_told():
    env = shaped(gamma=0.5)
    with pytest.warns(UserWarning, match=r"has gamma=0.5, but the algorithm has 0.9"):
        env.set_discount(GAMMA)
    env.reset(seed=0)
    assert env.step(2)[1] == pytest.approx(-0.1 + 0.5 * POTENTIAL[4] - POTENTIAL[3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.set_discount(0.5)


@pytest.mark.parametrize("gamma", [1.1, -0.1, "high"])
def test_an_impossible_discount_gets_a_clear_error(gamma):
    with pytest.raises(ValueError, match="gamma="):
        shaped(gamma=gamma)


def test_it_can_be_pickled_in_the_middle_of_an_episode():
    env = shaped()
    env.reset(seed=0)
    env.step(2)
    assert pickle.loads(pickle.dumps(env)).step(2)[1] == env.step(2)[1]
