"""Trains sections on seeds that had no part in choosing them, and keeps the curves of their evaluations."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from sb3_ext.runs.files import atomic_write
from sb3_ext.tune.local_pool import LocalPool
from sb3_ext.tune.pool import Done, Lost, Reached, Refused
from sb3_ext.tune.record import curve_from, curve_to
from sb3_ext.zoo.trial_training import Curve, TrialTraining

__all__ = ["FreshSeeds", "FreshTraining", "write_json"]

#: ``sb3-ext tune`` uses those from 1000 times its seed on
_FIRST_SEED = 90_000


class FreshTraining(NamedTuple):
    """
    :param name: of the configuration, for messages
    :param section: as in a hyperparameter file
    :param number: of the seed, from 0
    """

    name: str
    env_id: str
    section: dict[str, Any]
    number: int
    timesteps: int

    def __str__(self) -> str:
        return f"{self.env_id}, {self.name}, seed {_FIRST_SEED + self.number}"


class FreshSeeds:
    """
    :param folder: where curves are kept: what is there is not trained again
    """

    def __init__(self, folder: Path, algo: str, workers: int, evaluations: int, episodes: int) -> None:
        self._folder, self._algo, self._workers = folder, algo, workers
        self._evaluations, self._episodes = evaluations, episodes

    def train(self, wanted: list[FreshTraining]) -> list[Curve]:
        """:return: in the same order"""
        self._folder.mkdir(parents=True, exist_ok=True)
        trainings = [self._training(each) for each in wanted]
        paths = [self._folder / f"{_key(training)}.json" for training in trainings]
        # Two configurations may be the same
        waiting = [place for place, path in enumerate(paths) if not path.exists() and path not in paths[:place]]
        n_running = 0
        pool = LocalPool(self._workers, self._folder / "workers.log")
        try:
            while waiting or n_running:
                while waiting and n_running < self._workers:
                    pool.submit(waiting[0], trainings[waiting[0]])
                    n_running += 1
                    waiting.pop(0)
                for event in pool.wait(5.0):
                    if isinstance(event, Reached):
                        pool.answer(event.key, True)
                        continue
                    n_running -= 1
                    if isinstance(event, Refused):
                        raise SystemExit(f"{wanted[event.key]}: {event.message}")
                    if isinstance(event, Lost):
                        waiting.insert(0, event.key)
                    elif isinstance(event, Done):
                        write_json(paths[event.key], curve_to(event.curve))
                        score = event.curve.points[-1].score if event.curve.points else float("nan")
                        left = len(waiting) + n_running
                        print(f"{wanted[event.key]}: {score:.1f} at the end; {left} trainings left", flush=True)
        finally:
            pool.close()
        return [curve_from(json.loads(path.read_text(encoding="utf-8"))) for path in paths]

    def _training(self, wanted: FreshTraining) -> TrialTraining:
        seed, more = _FIRST_SEED + wanted.number, (self._evaluations, self._episodes)
        return TrialTraining(self._algo, wanted.env_id, wanted.section, seed, wanted.timesteps, *more)


def _key(training: TrialTraining) -> str:
    """What decides the curve: another section, seed or budget is another file."""
    fields = [training.algo, training.env_id, training.section, training.timesteps]
    text = json.dumps([*fields, training.evaluations, training.episodes], sort_keys=True)
    return f"{training.env_id}_{hashlib.sha256(text.encode()).hexdigest()[:16]}_{training.seed}".replace("/", "-")


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
