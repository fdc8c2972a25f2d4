"""Returns from rewards."""

from __future__ import annotations

import numpy as np

__all__ = ["reward_to_go"]


def reward_to_go(rewards: np.ndarray, ends: np.ndarray, gamma: float) -> np.ndarray:
    """
    Discounted sum of the rewards from each step to the end of its episode; nothing leaks from one episode into another.

    :param rewards: rewards in the order of time, one environment's episodes after one another
    :param ends: whether a step is the last of its episode
    :param gamma: discount factor
    """
    returns = np.empty(len(rewards), dtype=np.float64)
    running = 0.0
    for step in range(len(rewards) - 1, -1, -1):
        running = float(rewards[step]) + gamma * running * (not ends[step])
        returns[step] = running
    return returns.astype(np.float32)
