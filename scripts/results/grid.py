"""Plays trained agents on a grid of two environment parameters and prints a score for each cell.

python scripts/results/grid.py --runs plain=logs/plain randomised=logs/randomised --env LunarLander-v3 \\
    --grid gravity=-12..-4:5 wind_power=0..20:5 --episodes 20 --plot grid.png

A run is a log folder (RL Zoo's -f; the latest run of --algo is played) or the folder of one run
(logs/ppo_ext/LunarLander-v3_1). Several runs separated by commas, such as one per seed, are pooled. All agents play in
the same environments: domain randomisation from their training is left out, and parameters that are neither on the grid
nor --fixed keep the environment's default.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from evaluation import open_run, reward_threshold
from huggingface_sb3 import EnvironmentName
from rl_zoo3 import ALGOS
from rl_zoo3.utils import get_class_by_name
from stable_baselines3.common.utils import set_random_seed

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import nearest
from sb3_ext.runs.play.grid import GridScores, evaluate_grid, parse_axis, plot_grids, pooled
from sb3_ext.wrappers.randomization.known_envs import DomainRandomization, randomization_for


def locate(path: Path, env_id: str, algo: str) -> tuple[str, str, int]:
    """
    :return: algorithm, log folder and number of a run, 0 for the latest
    """
    env_name = EnvironmentName(env_id)
    if (path / f"{env_name}.zip").is_file():
        number = path.name.rpartition("_")[2]
        if path.parent.name not in ALGOS or not number.isdigit():
            raise ValueError(f"{path} is not named as RL Zoo does, such as logs/ppo_ext/{env_name}_1.")
        return path.parent.name, str(path.parent.parent), int(number)
    if not list((path / algo).glob(f"{env_name}_*")):
        raise ValueError(f"{path} has no run of {algo} on {env_id}: see --runs, --algo and --env.")
    return algo, str(path), 0


def use_grid_wrapper(hyperparams: dict[str, Any], wrapper: type[DomainRandomization]) -> None:
    """Put the wrapper that gives parameters in place of those that drew them in training."""
    written = hyperparams.get("env_wrapper") or []
    entries = written if isinstance(written, list) else [written]
    hyperparams["env_wrapper"] = [{wrapper: {}}, *(entry for entry in entries if not _is_randomization(entry))]


def _is_randomization(entry: Any) -> bool:
    name = next(iter(entry)) if isinstance(entry, dict) else entry
    found = get_class_by_name(name) if isinstance(name, str) else name
    return isinstance(found, type) and issubclass(found, DomainRandomization)


def play(args: argparse.Namespace, algo: str, folder: str, run_id: int) -> GridScores:
    """The scores of one run."""
    env = gym.spec(args.env).make()
    wrapper = randomization_for(env)
    env.close()
    model, vec_env = open_run(
        algo,
        args.env,
        folder,
        run_id=run_id,
        n_envs=min(args.episodes, args.n_envs),
        seed=args.seed,
        change=lambda hyperparams: use_grid_wrapper(hyperparams, wrapper),
    )
    set_random_seed(args.seed)  # of sampled actions
    try:
        return evaluate_grid(
            model,
            vec_env,
            *args.grid,
            args.episodes,
            fixed=dict(args.fixed),
            deterministic=not args.stochastic,
            seed=args.seed,
            on_cell=lambda cell, mean: print(f"{folder}: {cell}: {mean:.1f}", file=sys.stderr, flush=True),
        )
    finally:
        vec_env.close()


def summary(grid: GridScores, threshold: float | None) -> str:
    """The whole grid in one line."""
    text = f"mean of all cells {grid.mean.mean():.1f}, worst cell {grid.mean.min():.1f}"
    if threshold is None:
        return text
    return f"{text}, {int((grid.mean >= threshold).sum())} of {grid.mean.size} cells solved (from {threshold:g} on)"


def _axis(text: str) -> Any:
    try:
        return parse_axis(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _fixed(text: str) -> tuple[str, float]:
    name, separator, value = text.partition("=")
    try:
        if not separator:
            raise ValueError(f"{text!r} is not NAME=VALUE")
        return name, read_number(name, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _runs(text: str) -> tuple[str, list[Path]]:
    name, _, paths = text.partition("=")
    if not name or not paths:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER or NAME=FOLDER,FOLDER")
    found = [Path(path) for path in paths.split(",")]
    for path in found:
        if not path.is_dir():
            raise argparse.ArgumentTypeError(f"{path} is not a folder")
    return name, found


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", type=_runs, required=True, metavar="NAME=FOLDER[,FOLDER]")
    parser.add_argument("--env", default="LunarLander-v3", help="environment id")
    parser.add_argument("--algo", default="ppo_ext", choices=list(ALGOS), metavar="ALGO", help="for log folders")
    parser.add_argument(
        "--grid", nargs=2, type=_axis, required=True, metavar="NAME=LOW..HIGH:COUNT", help="or NAME=1,2"
    )
    parser.add_argument("--fixed", nargs="+", type=_fixed, default=[], metavar="NAME=VALUE", help="other parameters")
    parser.add_argument("--episodes", type=int, default=20, help="episodes per cell and run")
    parser.add_argument("--n-envs", type=int, default=20, help="environments to play them in")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the episodes, the same in each cell")
    parser.add_argument("--stochastic", action="store_true", help="sample the actions")
    parser.add_argument("--plot", help="file for the picture")
    args = parser.parse_args()
    names = [name for name, _ in args.runs]
    if len(set(names)) != len(names):
        parser.error(f"the names of --runs must differ: {', '.join(names)}")
    if args.env not in gym.registry:
        parser.error(f"there is no environment {args.env!r}: {nearest(args.env, list(gym.registry))}")
    if args.episodes < 1 or args.n_envs < 1:
        parser.error("--episodes and --n-envs must be at least 1")
    if args.plot and not Path(args.plot).absolute().parent.is_dir():
        parser.error(f"--plot: there is no folder {Path(args.plot).parent}")
    try:
        # All of them now: playing takes minutes
        args.runs = {name: [locate(path, args.env, args.algo) for path in paths] for name, paths in args.runs}
    except ValueError as error:
        parser.error(str(error))
    return args


def main() -> None:
    args = parse_args()
    th.set_num_threads(1)
    threshold = reward_threshold(args.env)
    grids: dict[str, GridScores] = {}
    kind = "stochastic" if args.stochastic else "deterministic"
    for name, runs in args.runs.items():
        with contextlib.redirect_stdout(sys.stderr):
            grids[name] = pooled([play(args, *run) for run in runs])
        n_runs = f" of {len(runs)} runs" if len(runs) > 1 else ""
        print(f"\n{name}, {args.env}: mean ± std over {grids[name].rewards.shape[-1]} {kind} episodes{n_runs}\n")
        print(f"{grids[name].table()}\n\n{summary(grids[name], threshold)}", flush=True)
    if args.plot:
        plot_grids(grids, args.plot, f"{args.env}, mean score of {args.episodes} episodes a run")


if __name__ == "__main__":
    main()
