"""Trains algorithms on environments with RL Zoo's command, over several seeds, and prints a table of their scores.

python scripts/results/solve.py --envs CartPole-v1 FrozenLake-v1 --algos reinforce a2c ppo --seeds 3

Each algorithm trains with its own hyperparameter file. RL Zoo's files lack some environments, such as FrozenLake-v1,
and its untuned `default` makes a weak baseline. `--conf ppo=hyperparams/ppo_ext.yml` gives an algorithm another file,
`--conf ppo:FrozenLake-v1=FILE` does so for one environment.

Finished runs in the folder with the same hyperparameters and number of steps are only evaluated again. Ctrl-C prints
the table so far.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rl_zoo3.train  # noqa: F401  lets plugins put their algorithms and ExperimentManager in place
import torch as th
from evaluation import Evaluation, evaluate_latest_run, reward_threshold
from huggingface_sb3 import EnvironmentName
from rl_zoo3 import ALGOS, exp_manager
from rl_zoo3.utils import get_latest_run_id

#: Our note in a finished run's folder: what was trained, and in how many seconds.
RECORD = "solve.json"


@dataclass(frozen=True)
class Run:
    """
    One training.

    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment id
    :param seed: seed of the training
    :param folder: log folder of this seed (RL Zoo's ``-f``)
    :param conf: hyperparameter file, ``None`` for the algorithm's own
    :param n_timesteps: steps to train for, ``None`` for as many as the hyperparameter file says
    """

    algo: str
    env_id: str
    seed: int
    folder: Path
    conf: str | None
    n_timesteps: int | None

    def __str__(self) -> str:
        return f"{self.env_id} {self.algo} seed {self.seed}"

    @property
    def run_folder(self) -> Path:
        """The latest run's folder; RL Zoo numbers them."""
        log_path, env_name = self.folder / self.algo, EnvironmentName(self.env_id)
        return log_path / f"{env_name}_{get_latest_run_id(str(log_path), env_name)}"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "rl_zoo3.train", "--algo", self.algo, "--env", self.env_id]
        command += ["--seed", str(self.seed), "--num-threads", "1", "--eval-freq", "-1", "-f", str(self.folder)]
        if self.conf is not None:
            command += ["--conf-file", self.conf]
        if self.n_timesteps is not None:
            command += ["--n-timesteps", str(self.n_timesteps)]
        return command

    def settings(self) -> dict[str, Any]:
        """What decides the result beside the seed: hyperparameters and number of steps, as RL Zoo reads them."""
        manager = exp_manager.ExperimentManager(
            argparse.Namespace(), self.algo, self.env_id, str(self.folder), config=self.conf
        )
        _, hyperparams = manager.read_hyperparameters()
        return {**hyperparams, "n_timesteps": int(self.n_timesteps or hyperparams["n_timesteps"])}


@dataclass(frozen=True)
class Result:
    """
    :param run: what was trained
    :param score: its final model's evaluation
    :param seconds: how long the training command took, start-up included
    """

    run: Run
    score: Evaluation
    seconds: float


class Solver:
    """
    Trains and evaluates, several runs at a time if asked, and ends its training commands when it is left early.

    :param args: the command line
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def solve(self, runs: list[Run]) -> Iterator[Result]:
        """Give out the results as they come; a failure is told and passed over."""
        with ThreadPoolExecutor(self._args.jobs) as pool:
            futures = {pool.submit(self._train_and_evaluate, run): run for run in runs}
            try:
                for future in as_completed(futures):
                    error = future.exception()
                    if error is None:
                        yield future.result()
                    else:
                        _say(f"{futures[future]}: FAILED, {type(error).__name__}: {error}")
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                self._stop()

    def _train_and_evaluate(self, run: Run) -> Result:
        settings = run.settings()
        seconds = None if self._args.force else _finished_seconds(run, settings)
        if seconds is None:
            seconds = self._train(run, settings)
        score = evaluate_latest_run(
            run.algo,
            run.env_id,
            str(run.folder),
            self._args.eval_episodes,
            n_envs=min(self._args.eval_episodes, self._args.eval_envs),
            seed=1000 * run.seed,  # other episodes for each seed, or the same luck would count several times
            deterministic=not self._args.stochastic,
        )
        if score.trained_steps < settings["n_timesteps"]:
            raise RuntimeError(f"only {score.trained_steps:,} steps were trained; --force trains again")
        if not self._stopped:
            _say(f"{run}: {score.mean:.{_digits(score.mean)}f} after {score.trained_steps:,} steps, {seconds:.0f} s")
        return Result(run, score, seconds)

    def _train(self, run: Run, settings: dict[str, Any]) -> float:
        """
        :return: the seconds that it took
        """
        run.folder.mkdir(parents=True, exist_ok=True)
        log = run.folder / f"{run.algo}-{EnvironmentName(run.env_id)}.log"
        _say(f"{run}: training for {settings['n_timesteps']:,} steps, log in {log}")
        start = time.time()
        self._call(run.command(), log)
        seconds = time.time() - start
        record = {"settings": settings, "seconds": seconds, "command": " ".join(["python", *run.command()[1:]])}
        (run.run_folder / RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
        return seconds

    def _call(self, command: list[str], log: Path) -> None:
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
            self._processes.add(process)
            code = process.wait()
            self._processes.discard(process)
        # RL Zoo saves an interrupted training and exits with 0
        if self._stopped or code != 0:
            tail = "".join(log.read_text(errors="replace", encoding="utf-8").splitlines(keepends=True)[-5:])
            raise RuntimeError(f"exit code {code}, the end of {log}:\n{tail}")

    def _stop(self) -> None:
        self._stopped = True
        for process in list(self._processes):
            process.terminate()


def _finished_seconds(run: Run, settings: dict[str, Any]) -> float | None:
    """How long the run took, if it is there, finished, and trained with the same settings."""
    try:
        record = json.loads((run.run_folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return record["seconds"] if record["settings"] == json.loads(json.dumps(settings)) else None


def _say(text: str) -> None:
    """Print, past the redirection that swallows what RL Zoo prints."""
    print(text, file=sys.__stdout__, flush=True)


def table(results: list[Result]) -> str:
    """A Markdown table with a row for each environment and algorithm, in the order of the results."""
    lines = [
        "| environment | algorithm | score (mean ± std over seeds) | worst seed | seeds | steps | s/seed | threshold |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.run.env_id, result.run.algo), []).append(result)
    for (env_id, algo), group in groups.items():
        scores = [result.score.mean for result in group]
        digits = _digits(max(scores, key=abs))
        threshold = reward_threshold(env_id)
        cells = [
            env_id,
            algo,
            f"{np.mean(scores):.{digits}f} ± {np.std(scores):.{digits}f}",
            f"{min(scores):.{digits}f}",
            str(len(group)),
            f"{max(result.score.trained_steps for result in group):,}",
            f"{np.mean([result.seconds for result in group]):.0f}",
            "none" if threshold is None else f"{threshold:g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _digits(score: float) -> int:
    """Digits after the point: more where scores are fractions."""
    return 3 if abs(score) < 2 else 1


def _conf_for(algo: str, env_id: str, confs: list[str]) -> str | None:
    """The file that ``--conf`` gives for an algorithm in an environment; one that names the environment goes first."""
    files = dict(conf.split("=", maxsplit=1) for conf in confs)
    return files.get(f"{algo}:{env_id}", files.get(algo))


def _conf(text: str) -> str:
    """``ALGO=FILE`` or ``ALGO:ENV=FILE``, checked."""
    target, _, file = text.partition("=")
    if target.split(":")[0] not in ALGOS or not Path(file).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not ALGO=FILE or ALGO:ENV=FILE with an algorithm and a file")
    return text


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "FrozenLake-v1"], help="environment ids")
    parser.add_argument("--algos", nargs="+", default=["reinforce", "a2c", "ppo"], choices=list(ALGOS), metavar="ALGO")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds: 1, 2, …")
    parser.add_argument("--n-timesteps", type=int, help="steps to train for, instead of the hyperparameter file's")
    parser.add_argument("--conf", nargs="+", default=[], type=_conf, metavar="ALGO[:ENV]=FILE", help="see above")
    parser.add_argument("--eval-episodes", type=int, default=1000, help="episodes to play with the final model")
    parser.add_argument("--eval-envs", type=int, default=50, help="environments to play them in")
    parser.add_argument("--stochastic", action="store_true", help="sample the actions in evaluation")
    parser.add_argument("--folder", type=Path, default=Path("logs/solve"), help="where the runs go")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, one thread each")
    parser.add_argument("--force", action="store_true", help="train again even if the folder has the run")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    th.set_num_threads(1)
    runs = [
        Run(algo, env, seed, args.folder / f"seed-{seed}", _conf_for(algo, env, args.conf), args.n_timesteps)
        for env in args.envs
        for algo in args.algos
        for seed in range(1, args.seeds + 1)
    ]
    results: list[Result] = []
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for result in Solver(args).solve(runs):
                results.append(result)
    except KeyboardInterrupt:
        _say(f"Interrupted: {len(results)} of {len(runs)} runs are done.")
    kind = "stochastic" if args.stochastic else "deterministic"
    _say(f"\nMean reward of {args.eval_episodes} {kind} episodes with the final model:\n")
    _say(table(sorted(results, key=lambda result: runs.index(result.run))))


if __name__ == "__main__":
    main()
