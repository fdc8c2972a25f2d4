"""Returns and advantages from rewards."""

import numpy as np

__all__ = ["gae", "reward_to_go"]


def reward_to_go(rewards: np.ndarray, ends: np.ndarray, gamma: float) -> np.ndarray:
    """
    Discounted sum of the rewards from each step to the end of its episode.

    :param rewards: of one environment, in the order of time
    :param ends: whether a step is the last of its episode
    """
    returns = np.empty(len(rewards))
    running = 0.0
    for step in range(len(rewards) - 1, -1, -1):
        running = float(rewards[step]) + gamma * running * (not ends[step])
        returns[step] = running
    return returns


def gae(
    rewards: np.ndarray, values: np.ndarray, next_values: np.ndarray, ends: np.ndarray, gamma: float, gae_lambda: float
) -> np.ndarray:
    """
    Generalised advantage estimation.

    :param values: values of the states before the steps
    :param next_values: values of the states after them; 0 where the episode terminated
    :param ends: whether an episode ended with the step
    """
    return reward_to_go(rewards + gamma * next_values - values, ends, gamma * gae_lambda)
