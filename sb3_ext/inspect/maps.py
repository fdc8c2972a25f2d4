"""Value and policy of every state of a small task, laid out as on its screen."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from gymnasium.envs.toy_text import CliffWalkingEnv, FrozenLakeEnv, TaxiEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["policy_and_values", "state_map"]

_MAX_STATES = 1000
#: Groups of Taxi: places of the passenger times destinations
_TAXI_GROUPS = 20


def state_map(model: BaseAlgorithm, env: VecEnv) -> dict[str, Any] | None:
    """
    :return: for each state its place on the map (row, column, group) with its value and the probability of each action,
        and which states end an episode; ``None`` for tasks without a map
    """
    space = env.observation_space
    if (
        not isinstance(space, spaces.Discrete)
        or space.n > _MAX_STATES
        or not isinstance(env.action_space, spaces.Discrete)
    ):
        return None
    layout = _layout(env, int(space.n))
    if layout is None:
        return None
    found = policy_and_values(model, np.arange(space.n) + space.start)
    return None if found is None else {**layout, **found, "terminal": _terminal_states(_task(env))}


def policy_and_values(model: BaseAlgorithm, observations: np.ndarray) -> dict[str, Any] | None:
    """Probabilities of all actions and values, by observation; ``None`` for policies that have no such numbers."""
    policy: Any = model.policy
    policy.set_training_mode(False)
    with th.no_grad():
        tensor, _ = policy.obs_to_tensor(observations)
        if hasattr(policy, "q_net"):
            q_values = policy.q_net(tensor)
            probabilities = th.nn.functional.one_hot(q_values.argmax(dim=1), q_values.shape[1]).float()
            values = q_values.amax(dim=1)
        elif hasattr(policy, "mlp_extractor") and not hasattr(policy, "lstm_actor"):
            probabilities = policy.get_distribution(tensor).distribution.probs
            values = policy.predict_values(tensor).flatten()
        else:
            return None
    return {"probabilities": probabilities.numpy().round(4).tolist(), "values": values.numpy().round(4).tolist()}


def _task(env: VecEnv) -> Any:
    return env.get_attr("unwrapped", 0)[0] if env.has_attr("unwrapped") else None


def _terminal_states(task: Any) -> list[int]:
    """States in which no action is taken, from the transition table of Gymnasium's toy tasks."""
    if not isinstance(task, FrozenLakeEnv | CliffWalkingEnv | TaxiEnv):
        return []
    outcomes = [outcome for actions in task.P.values() for found in actions.values() for outcome in found]
    return sorted({int(state) for _, state, _, terminated in outcomes if terminated})


def _layout(env: VecEnv, n_states: int) -> dict[str, Any] | None:
    """Size of the map, letters on it, and the number of groups that a state's number is split into."""
    task = _task(env)
    desc = getattr(task, "desc", None)
    if desc is not None and np.size(desc) == n_states:  # FrozenLake
        rows, columns = desc.shape
        letters = [[cell.decode() for cell in row] for row in desc]
        return {"rows": rows, "columns": columns, "groups": 1, "letters": letters}
    if n_states == 25 * _TAXI_GROUPS and hasattr(task, "decode"):
        return {"rows": 5, "columns": 5, "groups": _TAXI_GROUPS, "letters": None}
    shape = getattr(task, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and int(np.prod(shape)) == n_states:  # CliffWalking
        return {"rows": shape[0], "columns": shape[1], "groups": 1, "letters": None}
    return None
