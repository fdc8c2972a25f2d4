"""Names of the numbers in an observation, and of actions."""

from collections.abc import Mapping

from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.runs.play.episode_table import action_labels

__all__ = ["action_names", "observation_names"]

_LANDER = ("x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg down", "right leg down")
_CAR = ("position", "velocity")
#: Gymnasium names neither; from the documentation of each environment
_OBSERVATIONS: Mapping[str, tuple[str, ...]] = {
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    "MountainCar": _CAR,
    "MountainCarContinuous": _CAR,
    "Acrobot": ("cos θ1", "sin θ1", "cos θ2", "sin θ2", "θ1 velocity", "θ2 velocity"),
    "Pendulum": ("cos θ", "sin θ", "angular velocity"),
    "LunarLander": _LANDER,
    "LunarLanderContinuous": _LANDER,
}
_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Acrobot": ("-1", "0", "+1"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}


def observation_names(env: VecEnv, env_id: str) -> dict[str, str]:
    """By column of the episode table; the environment's own ``feature_names`` come first."""
    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return {}
    own = env.get_attr("feature_names", 0)[0] if env.has_attr("feature_names") else None
    names = tuple(own or _OBSERVATIONS.get(_family(env_id), ()))
    if not names or space.shape[0] % len(names):
        return {}
    n_frames = space.shape[0] // len(names)  # stacked, the oldest first
    shown = [name if n_frames == 1 else f"{name} ({age - n_frames + 1})" for age in range(n_frames) for name in names]
    return {f"obs_{index}": name for index, name in enumerate(shown)}


def action_names(env: VecEnv, env_id: str) -> list[str]:
    """Of a Discrete space; empty if nobody names them."""
    own = action_labels(env)
    known = _ACTIONS.get(_family(env_id), ())
    space = env.action_space
    return own or (list(known) if isinstance(space, spaces.Discrete) and len(known) == space.n else [])


def _family(env_id: str) -> str:
    return env_id.rpartition("/")[2].partition("-")[0]
