"""Scores of an agent on a grid of two environment parameters: where it copes, and where it fails."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.arguments import read_number
from sb3_ext.runs.play.scoring import play

__all__ = ["Axis", "GridScores", "evaluate_grid", "parse_axis", "plot_grids", "pooled"]

_METHOD = "force_parameters"


@dataclass(frozen=True)
class Axis:
    """A parameter and its values."""

    name: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.name or not self.values:
            raise ValueError(f"An axis of a grid needs a parameter and values; got {self.name!r} with {self.values}.")
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"The values of {self.name} must differ; got {self.values}.")


def parse_axis(text: str) -> Axis:
    """
    :param text: ``gravity=-12..-4:5`` for five values from -12 to -4, or ``gravity=-12,-10,-4``
    :raises ValueError: when it is neither
    """
    name, separator, values = text.partition("=")
    wrong = f"{text!r} is not a parameter with its values: write gravity=-12..-4:5 or gravity=-12,-10,-4."
    if not separator or not name.strip() or not values.strip():
        raise ValueError(wrong)
    name = name.strip()
    if ".." not in values:
        return Axis(name, tuple(read_number(name, value) for value in values.split(",")))
    bounds, separator, count = values.partition(":")
    low, _, high = bounds.partition("..")
    if not count.strip().isdigit() or int(count) < 2:
        raise ValueError(f"{wrong} The number after the colon is the number of values, at least 2.")
    return Axis(name, tuple(np.linspace(read_number(name, low), read_number(name, high), int(count)).tolist()))


@dataclass(frozen=True, eq=False)
class GridScores:
    """``rewards`` are the raw rewards of the episodes in each cell: an array of rows x columns x episodes."""

    rows: Axis
    columns: Axis
    rewards: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean reward in each cell."""
        return self.rewards.mean(axis=-1)

    @property
    def std(self) -> np.ndarray:
        """Standard deviation over the episodes in each cell."""
        return self.rewards.std(axis=-1)

    def table(self) -> str:
        """:return: mean ± standard deviation of each cell, as a Markdown table"""
        digits = _digits(self.mean)
        header = [f"{self.rows.name} \\ {self.columns.name}", *(f"{value:g}" for value in self.columns.values)]
        lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        for value, means, stds in zip(self.rows.values, self.mean, self.std, strict=True):
            cells = [f"{mean:.{digits}f} ± {std:.{digits}f}" for mean, std in zip(means, stds, strict=True)]
            lines.append(f"| {' | '.join([f'{value:g}', *cells])} |")
        return "\n".join(lines)


def evaluate_grid(
    model: BaseAlgorithm,
    env: VecEnv,
    rows: Axis,
    columns: Axis,
    n_episodes: int = 20,
    *,
    fixed: Mapping[str, float] | None = None,
    deterministic: bool = True,
    seed: int = 1000,
    on_cell: Callable[[dict[str, float], float], None] | None = None,
) -> GridScores:
    """
    Play the same number of episodes in each cell, from the same seed. Parameters that are neither on the grid nor fixed
    are drawn as the environments are configured.

    :param model: the agent
    :param env: its environments, each inside a ``Monitor`` and a wrapper for domain randomisation
    :param rows: the first parameter
    :param columns: the second parameter
    :param n_episodes: episodes per cell
    :param fixed: values of other parameters
    :param deterministic: take the most likely action
    :param seed: seed of the environments
    :param on_cell: called with the parameters and the mean of each cell when it is done
    """
    _check(env, rows, columns, n_episodes, fixed or {})
    rewards = np.zeros((len(rows.values), len(columns.values), n_episodes))
    try:
        for row, column in np.ndindex(rewards.shape[:2]):
            cell = {**(fixed or {}), rows.name: rows.values[row], columns.name: columns.values[column]}
            env.env_method(_METHOD, cell)
            env.seed(seed)
            rewards[row, column] = play(model, env, episodes=n_episodes, deterministic=deterministic).rewards
            if on_cell is not None:
                on_cell(cell, float(rewards[row, column].mean()))
    finally:
        env.env_method(_METHOD, None)
    return GridScores(rows, columns, rewards)


def _check(env: VecEnv, rows: Axis, columns: Axis, n_episodes: int, fixed: Mapping[str, float]) -> None:
    if n_episodes < 1:
        raise ValueError(f"n_episodes={n_episodes} must be at least 1.")
    if not env.has_attr(_METHOD):
        raise ValueError("The environments' parameters can't be set: wrap them in DomainRandomization.")
    names = [rows.name, columns.name, *fixed]
    if len(set(names)) != len(names):
        raise ValueError(f"Each parameter can be used once, on the grid or fixed: {', '.join(names)}.")
    # Wrong names and values raise an error now, not after hours of episodes
    for axis in (rows, columns):
        for value in axis.values:
            env.env_method(_METHOD, {**fixed, axis.name: value}, indices=[0])


def pooled(grids: Sequence[GridScores]) -> GridScores:
    """One grid with the episodes of several, which must have the same parameters and values."""
    if not grids or any((grid.rows, grid.columns) != (grids[0].rows, grids[0].columns) for grid in grids):
        raise ValueError("Only grids with the same parameters and values can be pooled.")
    return GridScores(grids[0].rows, grids[0].columns, np.concatenate([grid.rewards for grid in grids], axis=-1))


def plot_grids(grids: Mapping[str, GridScores], path: str, title: str = "") -> None:
    """
    Draw the mean scores side by side on one colour scale, and the last grid minus the first one.

    :param grids: scores by name
    :param path: the image file
    :param title: title of the figure
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = {name: grid.mean for name, grid in grids.items()}
    limits = min(mean.min() for mean in panels.values()), max(mean.max() for mean in panels.values())
    first, last = next(iter(grids)), list(grids)[-1]
    n_panels = len(panels) + (first != last)
    columns = grids[first].columns
    figure, axes = plt.subplots(
        1, n_panels, figsize=(1.5 + n_panels * max(3.0, 0.75 * len(columns.values)), 4.2), squeeze=False
    )
    for axis, (name, mean) in zip(axes[0], panels.items(), strict=False):
        _draw(figure, axis, grids[name], mean, name, limits, "viridis")
    if first != last:
        difference = panels[last] - panels[first]
        reach = max(float(abs(difference).max()), 1e-9)
        _draw(figure, axes[0][-1], grids[last], difference, f"{last} - {first}", (-reach, reach), "RdBu")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw(
    figure: Any, axes: Any, grid: GridScores, cells: np.ndarray, title: str, limits: tuple[float, float], colours: str
) -> None:
    image = axes.imshow(cells, vmin=limits[0], vmax=limits[1], cmap=colours, aspect="auto", origin="lower")
    axes.set(title=title, xlabel=grid.columns.name, ylabel=grid.rows.name)
    axes.set_xticks(range(len(grid.columns.values)), [f"{value:g}" for value in grid.columns.values])
    axes.set_yticks(range(len(grid.rows.values)), [f"{value:g}" for value in grid.rows.values])
    for row, column in np.ndindex(cells.shape):
        red, green, blue, _ = image.cmap(image.norm(cells[row, column]))
        ink = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
        text = f"{cells[row, column]:.{max(_digits(cells) - 1, 0)}f}"
        axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
    figure.colorbar(image, ax=axes)


def _digits(scores: np.ndarray) -> int:
    return 3 if abs(scores).max() < 2 else 1
