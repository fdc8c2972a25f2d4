"""Measures how the cost of a step depends on the number of environments, for SB3's PPO and ppo_ext, in turns.

python scripts/benchmarks/scaling.py --plot docs/images/scaling.png
python scripts/benchmarks/scaling.py --envs CartPole-v1 --n-envs 1 8 64 --rounds 3 --seconds 4

Hyperparameters are RL Zoo's for PPO. n_envs * n_steps is constant, so every update learns from the same number of steps
and only collecting them changes. Each measurement runs in its own process, with the side's best number of torch
threads: one thread and all cores are tried first, with RL Zoo's number of environments.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from functools import partial

from speed import (
    SIDES,
    Measured,
    about_the_run,
    add_threads,
    best_threads,
    measure_apart,
    median,
    microseconds,
    ratio,
    zoo_file,
    zoo_section,
)

TITLES = {"stock": "SB3's PPO", "ext": "ppo_ext"}
#: What was measured in each round, by number of environments and side
Results = dict[tuple[int, str], list[Measured]]


def measure(env_id: str, seconds: float, n_envs: int, side: str, threads: int) -> Measured:
    """Train with a number of environments, in a process of its own."""
    algo, hyperparams = SIDES[side]
    hyperparams = {**hyperparams, "n_envs": n_envs, "n_steps": rollout_size(env_id) // n_envs}
    return measure_apart(algo, env_id, hyperparams, conf=str(zoo_file()), threads=threads, seconds=seconds)


def rollout_size(env_id: str) -> int:
    """Steps of all environments together between two updates."""
    section = zoo_section(env_id)
    return section.get("n_envs", 1) * section.get("n_steps", 2048)


def scale(env_id: str, counts: list[int], rounds: int, seconds: float, n_threads: int | None) -> Results:
    """Measure all numbers of environments, one round after the other."""
    configured = zoo_section(env_id).get("n_envs", 1)
    as_configured = partial(measure, env_id, seconds, configured)
    threads = {side: n_threads or best_threads(side, as_configured) for side in TITLES}
    results: Results = {cell: [] for cell in itertools.product(counts, TITLES)}
    for number in range(rounds):
        for n_envs in counts:
            for side in TITLES:
                results[n_envs, side].append(measure(env_id, seconds, n_envs, side, threads[side]))
            speeds = [f"{side} {results[n_envs, side][-1]['steps_per_second']:,.0f}" for side in TITLES]
            done = f"round {number + 1} of {rounds}, {n_envs} environments: {', '.join(speeds)} steps/s"
            print(f"{env_id}: {done}", file=sys.stderr, flush=True)
    return results


def lines(env_id: str, results: Results) -> Iterator[str]:
    """The table's lines for an environment."""
    for (n_envs, side), measured in results.items():
        cells = [env_id, str(n_envs), TITLES[side], f"{median(measured, 'steps_per_second'):,.0f}"]
        cells += [*microseconds(measured), ratio(measured, results[n_envs, "stock"])]
        yield f"| {' | '.join(cells)} |"


def plot(results: dict[str, Results], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 12})
    _, panels = plt.subplots(1, len(results), figsize=(6 * len(results), 4.5), squeeze=False)
    for axes, (env_id, of_env) in zip(panels[0], results.items(), strict=True):
        counts = list(dict.fromkeys(n_envs for n_envs, _ in of_env))
        for side, title in TITLES.items():
            speeds = [[one["steps_per_second"] for one in of_env[n_envs, side]] for n_envs in counts]
            (line,) = axes.plot(
                counts, [median(of_env[n, side], "steps_per_second") for n in counts], "o-", label=title
            )
            axes.fill_between(counts, list(map(min, speeds)), list(map(max, speeds)), alpha=0.2, color=line.get_color())
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, labels=map(str, counts))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(alpha=0.3)
        axes.set(xlabel="environments", ylabel="steps a second of training", title=env_id)
        axes.legend()
    plt.tight_layout()
    plt.savefig(path, dpi=100)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "LunarLander-v3"], metavar="ENV")
    parser.add_argument("--n-envs", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of training per measurement")
    add_threads(parser)
    parser.add_argument("--plot", metavar="FILE", help="file for the picture")
    args = parser.parse_args()
    for env_id, n_envs in itertools.product(args.envs, args.n_envs):
        if n_envs < 1 or rollout_size(env_id) % n_envs:
            parser.error(f"--n-envs {n_envs} does not divide the {rollout_size(env_id)} steps of {env_id}'s rollouts")
    return args


def main() -> None:
    args = parse_args()
    start = time.time()
    counts = sorted(set(args.n_envs))
    results = {env_id: scale(env_id, counts, args.rounds, args.seconds, args.threads) for env_id in args.envs}
    print(f"\n{about_the_run(start)}\n")
    print("| task | n_envs | side | steps/s | env, µs a step | inference | update | ratio (range) |")
    print("|---|---|---|---|---|---|---|---|")
    for env_id, of_env in results.items():
        print("\n".join(lines(env_id, of_env)))
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
