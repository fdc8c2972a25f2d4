"""Measures what a trial of a study costs beside its training, by storage, size of the study and number of machines.

python scripts/benchmarks/study_overhead.py --postgresql postgresql://user:password@host/database
python scripts/benchmarks/study_overhead.py --sizes 10 1000 --schedulers 1 4 --samplers tpe

Each scheduler is a process that does what ``sb3-ext tune`` does for a trial, without training: ask for it and suggest
ten parameters inside the study's lock, report ten evaluations and ask the pruner each time, tell the score. They do
that one trial after the other, so they wait for each other far more than schedulers that train. Studies are filled with
random trials first. The table has the median time of a trial; its parts are those of one scheduler.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.owners import Heartbeat, Owner, give_back_dead
from sb3_ext.tune.pruners import Pruning
from sb3_ext.tune.samplers import make_sampler
from sb3_ext.tune.storage import open_storage

SPACE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-5, 1e-2, log=True),
    "clip_range": FloatDistribution(0.05, 0.4),
    "ent_coef": FloatDistribution(1e-8, 0.1, log=True),
    "gamma": FloatDistribution(0.9, 0.9999),
    "gae_lambda": FloatDistribution(0.8, 1.0),
    "n_epochs": IntDistribution(1, 20),
    "n_steps_pow": IntDistribution(5, 12),
    "net_arch": CategoricalDistribution(["tiny", "small", "medium"]),
    "activation_fn": CategoricalDistribution(["tanh", "relu"]),
    "normalize": CategoricalDistribution([False, True]),
}
EVALUATIONS = 10
#: Milliseconds of a trial, by part
Parts = dict[str, float]


class Place(NamedTuple):
    """Of a study."""

    url: str | None
    folder: Path
    name: str

    def lock(self) -> AbstractContextManager[None]:
        return study_lock(*self)

    def load(self) -> optuna.Study:
        study = optuna.load_study(study_name=self.name, storage=open_storage(self.url, self.folder))
        study.get_trials(deepcopy=False)
        return study


def main() -> None:
    args = parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print(f"Median milliseconds per trial; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start.\n")
    numbers = " | ".join(f"{sampler}, {n}" for sampler in args.samplers for n in args.schedulers)
    print(f"| storage | trials | opening | {numbers} |\n|---|---|---|{'---|' * numbers.count('|')}---|")
    parts: dict[str, Parts] = {}
    for storage in args.storages:
        for size in args.sizes:
            with filled_study(storage, size, args.postgresql) as place:
                with Clock() as opening:
                    study = place.load()
                results = {n: measure(place, study, n, args.samplers, args.window) for n in args.schedulers}
            cells = [f"{opening.parts['all']:,.0f}"]
            for sampler in args.samplers:
                for n in args.schedulers:
                    trials = [trial for process in results[n] for trial in process[sampler]]
                    cells.append(f"{statistics.median(trial['all'] for trial in trials):,.0f}")
                    if n == min(args.schedulers):
                        parts[f"{storage}, {size:,}, {sampler}"] = medians(trials)
            print(f"| {storage} | {size:,} | {' | '.join(cells)} |", flush=True)
    names = [name for name in next(iter(parts.values())) if name != "all"]
    print(f"\n| one scheduler | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for title, of_trial in parts.items():
        print(f"| {title} | {' | '.join(f'{of_trial[name]:,.1f}' for name in names)} |")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--storages", nargs="+", default=["journal", "sqlite"], choices=["journal", "sqlite", "postgresql"]
    )
    parser.add_argument("--postgresql", help="URL of an empty database, which keeps the studies")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 100, 1_000, 10_000])
    parser.add_argument("--schedulers", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--samplers", nargs="+", default=["random", "tpe"])
    parser.add_argument("--window", type=int, default=16, help="trials to measure, of all schedulers together")
    args = parser.parse_args()
    if args.postgresql and "postgresql" not in args.storages:
        args.storages.append("postgresql")
    return args


def medians(trials: list[Parts]) -> Parts:
    return {name: statistics.median(trial[name] for trial in trials) for name in trials[0]}


@contextmanager
def filled_study(storage: str, size: int, postgresql: str | None) -> Iterator[Place]:
    folder = Path(tempfile.mkdtemp(prefix="study-overhead-"))
    url = {"journal": None, "sqlite": f"sqlite:///{folder}/study.db", "postgresql": postgresql}[storage]
    opened = open_storage(url, folder)
    name = f"overhead {size} {folder.name}"
    study = optuna.create_study(storage=opened, study_name=name, direction="maximize")
    try:
        # Filling is not measured, so it need not wait for the disk
        with mock.patch("os.fsync"):
            fill(study, opened, [random_trial(random.Random(number)) for number in range(size)])
        yield Place(url, folder, name)
    finally:
        shutil.rmtree(folder)


def random_trial(source: random.Random) -> FrozenTrial:
    params = {name: distribution.to_external_repr(internal) for name, distribution, internal in _draw(source)}
    scores = [source.random() for _ in range(EVALUATIONS)]
    return create_trial(
        state=TrialState.PRUNED if source.random() < 0.3 else TrialState.COMPLETE,
        params=params,
        distributions=SPACE,
        value=scores[-1],
        intermediate_values=dict(enumerate(scores)),
        user_attrs={"section": params, "owner": "nobody", "curve 0": curve(scores)},
    )


def _draw(source: random.Random) -> Iterator[tuple[str, BaseDistribution, float]]:
    for name, distribution in SPACE.items():
        if isinstance(distribution, CategoricalDistribution):
            yield name, distribution, source.randrange(len(distribution.choices))
        elif isinstance(distribution, IntDistribution):
            yield name, distribution, source.randint(distribution.low, distribution.high)
        else:
            assert isinstance(distribution, FloatDistribution)
            yield name, distribution, source.uniform(distribution.low, distribution.high)


def curve(scores: list[float]) -> dict[str, Any]:
    return {"points": [[1000 * n, score, 1.0] for n, score in enumerate(scores)], "steps": 10_000, "seconds": 9.9}


def fill(study: optuna.Study, storage: BaseStorage, trials: list[FrozenTrial]) -> None:
    """SQL gets all trials at once: one by one, 10,000 would take minutes."""
    if not isinstance(storage, RDBStorage):
        study.add_trials(trials)
        return
    from optuna.storages._rdb import models
    from sqlalchemy import insert

    now = datetime.now()
    rows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    with storage.scoped_session() as session:
        stored = [
            models.TrialModel(
                number=n, study_id=study._study_id, state=t.state, datetime_start=now, datetime_complete=now
            )
            for n, t in enumerate(trials)
        ]
        session.add_all(stored)
        session.flush()
        for row, trial in zip(stored, trials, strict=True):
            key = {"trial_id": row.trial_id}
            finite = {"value": trial.value, "value_type": models.TrialValueModel.TrialValueType.FINITE}
            rows[models.TrialValueModel].append({**key, "objective": 0, **finite})
            for name, param in trial.params.items():
                value = {
                    "param_value": SPACE[name].to_internal_repr(param),
                    "distribution_json": distribution_to_json(SPACE[name]),
                }
                rows[models.TrialParamModel].append({**key, "param_name": name, **value})
            kind = models.TrialIntermediateValueModel.TrialIntermediateValueType.FINITE
            for step, score in trial.intermediate_values.items():
                value = {"intermediate_value": score, "intermediate_value_type": kind}
                rows[models.TrialIntermediateValueModel].append({**key, "step": step, **value})
            for name, attr in trial.user_attrs.items():
                rows[models.TrialUserAttributeModel].append({**key, "key": name, "value_json": json.dumps(attr)})
        for model, values in rows.items():
            session.execute(insert(model), values)
        session.commit()


def measure(
    place: Place, study: optuna.Study, schedulers: int, samplers: list[str], window: int
) -> list[dict[str, list[Parts]]]:
    """:return: for each process, and each sampler, its trials"""
    # A fork has the study in memory already: reading 10,000 trials 16 times would take longest
    gc.freeze()
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(schedulers), context.Queue()
    arguments = (place, study, samplers, max(1, window // schedulers), barrier, results)
    processes = [context.Process(target=schedule, args=arguments) for _ in range(schedulers)]
    for process in processes:
        process.start()
    measured = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return measured


def schedule(place: Place, study: optuna.Study, samplers: list[str], count: int, barrier: Any, results: Any) -> None:
    storage: Any = study._storage
    if isinstance(storage, JournalStorage):
        storage._worker_id_prefix = storage._replay_result._worker_id_prefix = str(os.getpid())
    else:
        storage._backend.engine.dispose(close=False)  # its connections are the parent's
    owner, measured = Owner.of_this_process(), {}
    with Heartbeat(study, owner):
        for sampler in samplers:
            one_trial(place, study, owner, sampler)  # imports, and caches of the database
            barrier.wait()
            measured[sampler] = [one_trial(place, study, owner, sampler) for _ in range(count)]
            barrier.wait()
    results.put(measured)


def one_trial(place: Place, study: optuna.Study, owner: Owner, sampler: str) -> Parts:
    with Clock() as clock:
        with place.lock():
            clock.lap("wait for the lock")
            give_back_dead(study)
            number = len(study.get_trials(deepcopy=False))
            study.sampler = make_sampler(sampler, 0, number, n_startup=10)
            trial = study.ask()
            owner.claim(trial)
            clock.lap("ask")
            params = {name: trial._suggest(name, distribution) for name, distribution in SPACE.items()}
            trial.set_user_attr("section", params)
            clock.lap("suggest")
        pruning = Pruning("median", n_first=0, seeds=1, evaluations=EVALUATIONS)
        scores: list[float] = []
        for _ in range(EVALUATIONS):
            scores.append(random.random())
            pruning.should_prune(study, trial, [scores])
        clock.lap("reports and pruner")
        with place.lock():
            clock.lap("wait for the lock")
            trial.set_user_attr("curve 0", curve(scores))
            assert owner.owns(study, trial.number)
            study.tell(trial, scores[-1])
            clock.lap("tell")
    return clock.parts


class Clock:
    """Milliseconds of each part, and of all."""

    def __enter__(self) -> Clock:
        self.parts: Parts = defaultdict(float)
        self._start = self._last = time.perf_counter()
        self._cpu = time.process_time()
        return self

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.parts[name] += 1000 * (now - self._last)
        self._last = now

    def __exit__(self, *_: object) -> None:
        cpu, total = time.process_time() - self._cpu, time.perf_counter() - self._start
        self.parts = {**self.parts, "CPU of all": 1000 * cpu, "all": 1000 * total}


if __name__ == "__main__":
    main()
