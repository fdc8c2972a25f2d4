"""``MinAtar/Breakout-v1`` and so on: the small games of MinAtar (Young and Tian, 2019), if its package is installed.

SB3 can't use the package's own Gymnasium environments as images (booleans, channels last), their seed doesn't determine
an episode (the last action of the previous one may stick), and their pictures are 10 pixels wide. These have the same
rules and ids: ``v1`` with the actions that have an effect, ``v0`` with all six.
"""

import importlib
import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.names import check_choice

__all__ = ["MinAtarEnv", "register_minatar"]

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_PIXELS_PER_CELL = 32
#: One per channel; the last one is on top, as in the package's own pictures
_COLOURS = np.array(
    [
        (16, 16, 20),
        *((96, 165, 250), (248, 113, 113), (250, 204, 21), (74, 222, 128), (192, 132, 252)),
        *((251, 146, 60), (45, 212, 191), (244, 114, 182), (163, 163, 163), (255, 255, 255)),
    ],
    dtype=np.uint8,
)


class MinAtarEnv(gym.Env[np.ndarray, np.int64]):
    """
    :param game: one of MinAtar's games
    :param minimal_actions: only the actions that have an effect in this game
    :param observe: ``"image"``: 0 and 255, channels first, for ``CnnPolicy`` with ``ImpalaCNN`` (SB3's NatureCNN is
        for larger images); ``"vector"``: 0.0 and 1.0, for ``MlpPolicy``
    :param sticky_action_prob: probability of repeating the previous action
    :param difficulty_ramping: whether games get harder with time
    :param render_mode: ``"rgb_array"`` or ``None``
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  as in Gymnasium

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        observe: str = "image",
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        check_choice("game", game, GAMES)
        check_choice("observe", observe, ("image", "vector"))
        try:
            minatar = importlib.import_module("minatar")  # untyped and optional
        except ImportError as error:
            raise gym.error.DependencyNotInstalled("MinAtar is not installed, run `pip install minatar`") from error
        self._game = minatar.Environment(
            game, sticky_action_prob=sticky_action_prob, difficulty_ramping=difficulty_ramping
        )
        self._actions = list(self._game.minimal_action_set() if minimal_actions else range(self._game.num_actions()))
        self.action_space = spaces.Discrete(len(self._actions))
        height, width, channels = self._game.state_shape()
        self._observe = observe
        if observe == "image":
            self.observation_space = spaces.Box(0, 255, (channels, height, width), np.uint8)
        else:
            self.observation_space = spaces.Box(0.0, 1.0, (channels * height * width,), np.float32)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._game.seed(seed)
        self._game.last_action = 0
        self._game.reset()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, terminated = self._game.act(self._actions[int(action)])
        return self._observation(), float(reward), bool(terminated), False, {}

    def _observation(self) -> np.ndarray:
        channels_first = self._game.state().transpose(2, 0, 1)
        if self._observe == "image":
            return channels_first.astype(np.uint8) * np.uint8(255)
        return channels_first.astype(np.float32).reshape(-1)

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            gym.logger.warn('render() does nothing without a render_mode: gym.make(..., render_mode="rgb_array")')
            return None
        state = self._game.state()
        seen = (state * np.arange(1, state.shape[2] + 1)).max(axis=2)
        return _COLOURS[seen].repeat(_PIXELS_PER_CELL, axis=0).repeat(_PIXELS_PER_CELL, axis=1)


def register_minatar() -> list[str]:
    """Register an id for each of MinAtar's games if its package is installed, and return the ids."""
    if importlib.util.find_spec("minatar") is None:
        return []
    ids = []
    for game in GAMES:
        for version, minimal_actions in (("v0", False), ("v1", True)):
            env_id = f"MinAtar/{game.title().replace('_', '')}-{version}"
            ids.append(env_id)
            if env_id not in gym.registry:
                gym.register(
                    env_id,
                    "sb3_ext.envs.minatar:MinAtarEnv",
                    # Without mistakes a game never ends, and neither would evaluation
                    max_episode_steps=10_000,
                    kwargs={"game": game, "minimal_actions": minimal_actions},
                )
    return ids
