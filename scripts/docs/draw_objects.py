"""Draws the objects in an observation over the game's screen, with their positions and velocities.

python scripts/docs/draw_objects.py --env Pong-v5_objects --output docs/images/pong_objects.png
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sb3_ext.envs  # noqa: F401  registers the ids
from sb3_ext.envs.object_games import OBJECT_GAMES

_COLOURS = plt.get_cmap("tab10").colors
#: Steps that an arrow is long: at its tip, an object that goes on as before would be then
_STEPS_AHEAD = 4


def play(env: gym.Env, n_steps: int, seed: int) -> np.ndarray:
    """Random actions, each for some steps; returns the last observation."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for step in range(n_steps):
        if step % 4 == 0:
            action = int(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    return observation


def draw(env: gym.Env, observation: np.ndarray, path: str) -> None:
    """The screen with the objects, and the numbers of the observation beside it."""
    game: str = env.spec.kwargs["game"]  # type: ignore[union-attr]
    numbers = dict(zip(env.unwrapped.feature_names, observation, strict=True))  # type: ignore[attr-defined]
    figure, (screen, table) = plt.subplots(1, 2, figsize=(9, 5.2), width_ratios=(1, 1))
    screen.imshow(env.render(), aspect=0.8)
    screen.set_axis_off()
    table.set_axis_off()
    rows, colours = [], []
    for thing, colour in zip(OBJECT_GAMES[game].objects, _COLOURS * 4, strict=False):
        x, y, vx, vy, there = (numbers[f"{thing.name}.{feature}"] for feature in ("x", "y", "vx", "vy", "there"))
        rows.append([thing.name, *(f"{number:.2f}" for number in (x, y, vx, vy)), f"{there:.0f}"])
        colours.append(colour)
        if not there:
            continue
        pixel = (x + 1) * 80, (y + 1) * 105
        pixels_ahead = _STEPS_AHEAD * thing.speed * 4
        tip = pixel[0] + vx * pixels_ahead, pixel[1] + vy * pixels_ahead
        screen.plot(*pixel, "o", color=colour, markersize=16, markerfacecolor="none", markeredgewidth=2)
        if vx or vy:
            screen.annotate("", tip, pixel, arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 2})
        screen.annotate(thing.name, pixel, (0, 12), textcoords="offset points", color="white", ha="center")
    found = table.table(rows, colLabels=["object", "x", "y", "vx", "vy", "there"], loc="center", cellLoc="right")
    for row, colour in enumerate(colours, start=1):
        found[row, 0].get_text().set_color(colour)
    found.scale(1, 1.4)
    table.set_title(
        "\n".join(f"{name}: {numbers[name]:.2f}" for name in numbers if " from " in name), fontsize=9, y=0.12
    )
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="Pong-v5_objects", help="environment id")
    parser.add_argument("--steps", type=int, default=49, help="agent steps to play first")
    parser.add_argument("--seed", type=int, default=1, help="seed of the game and the actions")
    parser.add_argument("--output", default="docs/images/pong_objects.png", help="file to write")
    args = parser.parse_args()

    env = gym.make(args.env, render_mode="rgb_array")
    draw(env, play(env, args.steps, args.seed), args.output)
    env.close()


if __name__ == "__main__":
    main()
