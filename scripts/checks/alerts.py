"""Checks that alerts fire when they should, and only then.

python scripts/checks/alerts.py --seeds 2 --jobs 2
python scripts/checks/alerts.py --rules kl_high kl_low --healthy "ppo_ext CartPole-v1, section" --seeds 1
python scripts/checks/alerts.py --seeds 2 --again            # evaluate the recorded rows again, after changing a rule

Trains runs that are broken on purpose (broken_runs.py) and healthy ones (healthy_runs.py). Prints Markdown tables: for
each rule, the broken run, when the rule fired, and its false alarms on healthy runs. The rows of each run are kept in
the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
import yaml
from broken_runs import BROKEN, BrokenRun, ScaledRewards
from healthy_runs import HEALTHY, HealthyRun
from rl_zoo3 import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext.callbacks.alerts.callback import Alerts, TrainingDiverged
from sb3_ext.callbacks.alerts.context import RuleFacts, facts_of
from sb3_ext.callbacks.alerts.engine import RuleEngine
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.hyperparams import hyperparams_file
from sb3_ext.runs.rows import scalars
from sb3_ext.zoo.models import make_model


@dataclass(frozen=True)
class Job:
    """
    :param run: what to train
    :param seed: of the training
    :param parent: folder for its folder
    """

    run: BrokenRun | HealthyRun
    seed: int
    parent: Path

    def __str__(self) -> str:
        return f"{self.run}, seed {self.seed}"

    @property
    def rule(self) -> str | None:
        """The alert that should fire; ``None``: it is healthy."""
        return self.run.rule if isinstance(self.run, BrokenRun) else None

    @property
    def folder(self) -> Path:
        """For its rows, with everything in its name that tells it from others."""
        return self.parent / re.sub(r"[^\w.-]+", "_", f"{self.rule or 'healthy'} {self} {self.run.n_timesteps or ''}")


@dataclass
class Outcome:
    """
    :param job: what was trained
    :param n_rows: rows that were written
    :param fired: by id: the first row that it fired at (from 1 on), and how many there were
    :param score: mean episode reward at the end
    """

    job: Job
    n_rows: int = 0
    fired: dict[str, tuple[int, int]] = field(default_factory=dict)
    score: float = np.nan


class Recorder(KVWriter):
    """
    Keeps what a logger writes.

    :param path: file for the rows
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self.rows: list[dict[str, float]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.rows.append({"step": step, **scalars(key_values)})
        self._file.write(json.dumps(self.rows[-1]) + "\n")

    def close(self) -> None:
        self._file.close()


class CountsWrongly(BaseCallback):
    """A user's mistake: the episodes of the rollout, under the name of those so far."""

    def _on_rollout_start(self) -> None:
        self._episodes = 0

    def _on_step(self) -> bool:
        self._episodes += int(np.sum(self.locals["dones"]))
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("time/episodes", self._episodes)


class FactsRecorder(RunCallback):
    """
    Saves what rules know about a run besides its rows.

    :param path: file for it
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _on_training_start(self) -> None:
        facts = asdict(replace(facts_of(self.model, self.run.threshold), bounds_of=None))  # type: ignore[arg-type]
        del facts["bounds_of"]
        self._path.write_text(
            json.dumps({**facts, "algorithms": sorted(facts["algorithms"])}, default=str), encoding="utf-8"
        )


@contextlib.contextmanager
def _model(job: Job) -> Iterator[BaseAlgorithm]:
    run, changes = job.run, dict(job.run.changes)
    if run.algo == "dqn" or (isinstance(run, HealthyRun) and run.plain):
        wrapper = changes.pop("env_wrapper", [{}])[0]
        scaled = {"wrapper_class": ScaledRewards, "wrapper_kwargs": wrapper["ScaledRewards"]} if wrapper else {}
        env = make_vec_env(run.env_id, changes.pop("n_envs", 1), seed=job.seed, **scaled)
        yield ALGOS[run.algo]("MlpPolicy", env, seed=job.seed, device="cpu", **changes)
        env.close()
        return
    # One core each, so that several can run at a time
    one_core = {"ext": {"vec_env": "dummy"}}
    if run.algo in ("ppo_ext", "a2c_ext", "reinforce"):
        one_core["fast"] = "alone"
    with make_model(run.algo, run.env_id, {**one_core, **changes}, seed=job.seed) as model:
        yield model


def train(job: Job) -> Outcome:
    """
    :param job: what to train
    """
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    recorder = Recorder(job.folder / "rows.jsonl")
    callbacks: list[BaseCallback] = [Metrics(), Alerts(folder=str(job.folder), verbose=0)]
    if isinstance(job.run, BrokenRun) and job.run.counts_wrongly:
        callbacks.insert(0, CountsWrongly())
    callbacks.append(FactsRecorder(job.folder / "facts.json"))
    with contextlib.redirect_stdout(io.StringIO()), _model(job) as model:
        model.set_logger(Logger(folder=None, output_formats=[recorder]))
        with contextlib.suppress(TrainingDiverged):
            model.learn(_n_timesteps(job.run), callback=callbacks, log_interval=1)
    recorder.close()
    return _outcome(job, recorder.rows)


def judge_again(job: Job) -> Outcome:
    """
    The rows that were recorded, by the rules as they are now. What is not in the rows (a policy that is NaN, the
    bounds of a metric) is not judged: ``nan`` and ``out_of_bounds`` stay as they were.

    :param job: what was trained before
    """
    known = json.loads((job.folder / "facts.json").read_text(encoding="utf-8"))
    facts = RuleFacts(**{**known, "algorithms": frozenset(known["algorithms"])})
    engine = RuleEngine([rule for rule_id, rule in RULES.items() if rule_id not in ("nan", "out_of_bounds")], facts)
    rows = [json.loads(line) for line in (job.folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        step = row.pop("step")
        kept = {name: row.pop(name) for name in list(row) if name.startswith("alert/")}
        alerts = {f"alert/{alert.id}": 1 for alert in engine.check(step, row)}
        row.update(alerts, **{name: kept[name] for name in ("alert/nan", "alert/out_of_bounds") if name in kept})
    return _outcome(job, rows)


def _outcome(job: Job, rows: list[dict[str, float]]) -> Outcome:
    outcome = Outcome(job, len(rows))
    for number, row in enumerate(rows, start=1):
        outcome.score = row.get("rollout/ep_rew_mean", outcome.score)
        for name, value in row.items():
            rule_id = name.removeprefix("alert/")
            if name.startswith("alert/") and rule_id != "total" and value > 0:
                first, count = outcome.fired.get(rule_id, (number, 0))
                outcome.fired[rule_id] = (first, count + 1)
    return outcome


def _n_timesteps(run: BrokenRun | HealthyRun) -> int:
    if run.n_timesteps is not None:
        return run.n_timesteps
    return int(yaml.safe_load(Path(hyperparams_file(run.algo)).read_text(encoding="utf-8"))[run.env_id]["n_timesteps"])


def table(outcomes: list[Outcome], rule_ids: list[str]) -> str:
    """
    :param outcomes: of all runs
    :param rule_ids: rules to tell about
    :return: Markdown
    """
    healthy = [outcome for outcome in outcomes if outcome.job.rule is None]
    lines = ["| rule | broken on purpose | fired at row | false alarms |", "|---|---|---|---|"]
    for rule_id in rule_ids:
        runs: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            if outcome.job.rule == rule_id:
                runs.setdefault(str(outcome.job.run), []).append(outcome)
        alarms = [outcome for outcome in healthy if rule_id in outcome.fired]
        cell = ", ".join(_described(outcome, rule_id) for outcome in alarms)
        cells = f"{len(alarms)} of {len(healthy)}{f' ({cell})' if cell else ''}"
        for index, (name, group) in enumerate(runs.items() or [("none", [])]):
            fired = "; ".join(_first_row(outcome, rule_id) for outcome in group)
            lines.append(f"| `{rule_id}` | {name} | {fired} | {cells if index == 0 else ''} |")
    return "\n".join(lines)


def _first_row(outcome: Outcome, rule_id: str) -> str:
    if rule_id not in outcome.fired:
        return f"NOT in {outcome.n_rows}"
    return f"{outcome.fired[rule_id][0]} of {outcome.n_rows}"


def _described(outcome: Outcome, rule_id: str) -> str:
    return f"{outcome.job}: {outcome.fired[rule_id][1]} of {outcome.n_rows} rows"


def totals(outcomes: list[Outcome], rule_ids: list[str]) -> str:
    """
    :param outcomes: of all runs
    :param rule_ids: rules to tell about
    :return: hits and false alarms in words
    """
    broken = [outcome for outcome in outcomes if outcome.job.rule is not None]
    healthy = [outcome for outcome in outcomes if outcome.job.rule is None]
    hits = sum(outcome.job.rule in outcome.fired for outcome in broken)
    alarms = sum(rule_id in outcome.fired for outcome in healthy for rule_id in rule_ids)
    rows = sum(outcome.n_rows for outcome in healthy)
    bad_rows = sum(count for outcome in healthy for rule_id, (_, count) in outcome.fired.items() if rule_id in rule_ids)
    return (
        f"Hits: {hits} of {len(broken)} broken runs. False alarms: {alarms} of {len(healthy) * len(rule_ids)} pairs of "
        f"rule and healthy run; {bad_rows} alerts in {rows:,} rows of {len(healthy)} healthy runs."
    )


def healthy_table(outcomes: list[Outcome]) -> str:
    """
    :param outcomes: of all runs
    :return: Markdown
    """
    lines = ["| healthy run | seed | rows | score in training at the end | alerts |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        if outcome.job.rule is None:
            alerts = ", ".join(f"{rule_id} ({count})" for rule_id, (_, count) in sorted(outcome.fired.items()))
            job = outcome.job
            cells = [
                str(job.run),
                str(job.seed),
                str(outcome.n_rows),
                f"{outcome.score:.4g}",
                alerts or "none",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rules", nargs="*", default=list(RULES), choices=list(RULES), metavar="ID", help="rules to break"
    )
    parser.add_argument("--healthy", nargs="*", default=["*"], metavar="PATTERN", help="which healthy runs")
    parser.add_argument("--again", action="store_true", help="evaluate the recorded rows again without training")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds: 1, 2, …")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, one thread each")
    parser.add_argument("--folder", type=Path, default=Path("logs/alerts"), help="where rows and alerts go")
    return parser.parse_args()


def _jobs(args: argparse.Namespace) -> list[Job]:
    broken = [run for run in BROKEN if run.rule in args.rules]
    healthy = [run for run in HEALTHY if any(fnmatch(str(run), pattern) for pattern in args.healthy)]
    return [Job(run, seed, args.folder) for seed in range(1, args.seeds + 1) for run in (*broken, *healthy)]


def main() -> None:
    args = parse_args()
    jobs = _jobs(args)
    outcomes: dict[int, Outcome] = {}
    with ProcessPoolExecutor(args.jobs) as pool:
        todo = judge_again if args.again else train
        futures = {pool.submit(todo, job): index for index, job in enumerate(jobs)}
        for future in as_completed(futures):
            index = futures[future]
            try:
                outcomes[index] = future.result()
            except Exception as error:
                print(f"{jobs[index]}: FAILED, {type(error).__name__}: {error}", flush=True)
                continue
            fired = {rule_id: f"{first} ({count})" for rule_id, (first, count) in sorted(outcomes[index].fired.items())}
            print(
                f"{jobs[index]}: {outcomes[index].n_rows} rows, score {outcomes[index].score:.4g}, {fired}", flush=True
            )
    ordered = [outcomes[index] for index in sorted(outcomes)]
    rule_ids = [rule_id for rule_id in RULES if rule_id in args.rules]
    print(f"\n{table(ordered, rule_ids)}\n\n{totals(ordered, rule_ids)}\n\n{healthy_table(ordered)}")
    missing = len(jobs) - len(outcomes)
    sys.exit(f"{missing} runs failed" if missing else 0)


if __name__ == "__main__":
    main()
