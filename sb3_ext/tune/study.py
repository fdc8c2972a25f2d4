"""An Optuna study of trainings: its first trials, who runs which trial, and what is stored of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.owners import Heartbeat, Owner, give_back, give_back_dead, is_dead
from sb3_ext.tune.record import TrialRecord, curve_to, trial_record
from sb3_ext.tune.samplers import sampler_for
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import SearchSpace
from sb3_ext.tune.view import FinishedRow
from sb3_ext.zoo.trial_training import Curve

__all__ = ["First", "Proposed", "TuneStudy", "open_study", "store_curve", "stored_settings"]


class First(NamedTuple):
    """A configuration to try before any sampler is asked."""

    proposed_by: str
    section: dict[str, Any]


def stored_settings(storage: optuna.storages.BaseStorage, name: str) -> StudySettings | None:
    """:return: ``None`` if there is no such study yet"""
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:
        return None
    raw = storage.get_study_user_attrs(study_id).get("settings")
    if raw is None:
        # A study of ours that was killed before its settings were stored has its first trials only
        if not all("proposed_by" in trial.user_attrs for trial in storage.get_all_trials(study_id, deepcopy=False)):
            raise UsageError(f"The study {name!r} was not made by sb3-ext tune. Choose another name with --study.")
        return None
    return StudySettings.read(raw, f"the settings of the study {name!r}")


class Proposed(NamedTuple):
    """Parameters from elsewhere than a sampler, and attributes of the trial, such as ``proposed_by``."""

    params: dict[str, Any]
    attributes: dict[str, Any]


class TuneStudy:
    """
    A context manager: inside, other machines know that this process lives.

    :param lock: makes a context in which no other machine takes trials
    :param samplers: names of samplers, which take turns
    :param n_startup: random trials before a sampler learns
    :param propose: parameters of a new trial from elsewhere; ``None`` to ask the sampler
    """

    def __init__(
        self,
        study: optuna.Study,
        settings: StudySettings,
        lock: Callable[[], AbstractContextManager[Any]],
        samplers: Sequence[str] = ("tpe",),
        n_startup: int = 10,
        propose: Callable[[TuneStudy], Proposed | None] = lambda study: None,
    ) -> None:
        self.study, self.settings, self.lock = study, settings, lock
        self.space = SearchSpace.from_dict(settings.space)
        self._owner = Owner.of_this_process()
        self._heartbeat = Heartbeat(study, self._owner)
        self.samplers, self._n_startup, self._propose = samplers, n_startup, propose
        #: What has ended in this phase of the study
        self.finished: list[FinishedRow] = []

    def __enter__(self) -> TuneStudy:
        self._heartbeat.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._heartbeat.stop()

    @property
    def name(self) -> str:
        return self.study.study_name

    @property
    def seconds(self) -> float | None:
        """With ``clock``: what a training has, once the start has been trained."""
        return self.study.user_attrs.get("seconds")

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self.study.set_user_attr("seconds", seconds)

    @property
    def n_first(self) -> int:
        """Number of configurations that were tried before any sampler was asked."""
        return int(self.study.user_attrs.get("n_first", 1))

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states or None)

    def best(self, n: int) -> list[TrialRecord]:
        """The best complete trials, best first; of equals, the earlier one."""
        complete = [trial for trial in self.trials(TrialState.COMPLETE) if trial.value is not None]
        return [trial_record(trial) for trial in sorted(complete, key=lambda t: (-(t.value or 0.0), t.number))[:n]]

    def ask(self, limit: int | None) -> optuna.Trial | None:
        """
        The next trial: one that was interrupted, or a new one if there are fewer than ``limit``.

        :return: ``None`` if there is nothing to do
        """
        # A language model takes its time, and others must not wait for it
        is_new = not self.trials(TrialState.WAITING) and (limit is None or len(self.trials()) < limit)
        proposal = self._propose(self) if is_new else None
        with self.lock():
            give_back_dead(self.study, self._heartbeat.silent)
            if not self.trials(TrialState.WAITING):
                if limit is not None and len(self.trials()) >= limit:
                    return None
                if proposal is not None:
                    self.study.enqueue_trial(proposal.params, user_attrs=proposal.attributes)
            seed, n_startup = self.settings.seed, self._n_startup
            name, self.study.sampler = sampler_for(self.study, self.samplers, seed, n_startup=n_startup)
            trial = self.study.ask()
            self._owner.claim(trial)
            if "proposed_by" not in trial.user_attrs:
                trial.set_user_attr("proposed_by", name)
            self.space.suggest(trial)
            if "section" not in trial.user_attrs:
                trial.set_user_attr("section", self.space.apply(self.settings.start, trial.params))
        return trial

    def tell(
        self, trial: optuna.Trial, value: float | None, state: TrialState, error: str | None
    ) -> TrialRecord | None:
        """:return: ``None`` if another machine has taken the trial over, because it could not see us for a while"""
        with self.lock():
            if not self._owner.owns(self.study, trial.number):
                return None
            if error is not None:
                trial.set_user_attr("error", error)
            return trial_record(self.study.tell(trial, value, state))

    def give_back(self, trials: list[optuna.Trial]) -> None:
        """They will be taken again, here or elsewhere, and go on with the seeds that are missing."""
        with self.lock():
            for trial in trials:
                if self._owner.owns(self.study, trial.number):
                    give_back(self.study, trial.number)

    @contextmanager
    def claimed(self, what: str) -> Iterator[str | None]:
        """
        Work that one scheduler does for all.

        :return: ``None`` if it is ours now, otherwise the name of a living owner that does it
        """
        key = f"claim {what}"
        with self.lock():
            holder = self.study.user_attrs.get(key)
            if holder is None or is_dead(self.study, holder, self._heartbeat.silent):
                self.study.set_user_attr(key, self._owner.name)
                holder = None
        try:
            yield holder
        finally:
            if holder is None:
                self.study.set_user_attr(key, None)


def store_curve(trial: optuna.Trial, seed: int, curve: Curve) -> None:
    trial.set_user_attr(f"curve {seed}", curve_to(curve))


def open_study(
    storage: optuna.storages.BaseStorage,
    name: str,
    settings: StudySettings,
    first: list[First],
    lock: Callable[[], AbstractContextManager[Any]],
) -> optuna.Study:
    """Make the study with its first trials, or continue it. A kill in between leaves nothing half-made."""
    with lock():
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
        if "settings" not in study.user_attrs:
            space = SearchSpace.from_dict(settings.space)
            known = [trial.user_attrs.get("section") for trial in study.get_trials(deepcopy=False)]
            for proposed_by, section in first:
                if section not in known:
                    known.append(section)
                    attributes = {"proposed_by": proposed_by, "section": section}
                    study.enqueue_trial(space.params_of(section), user_attrs=attributes)
            study.set_user_attr("n_first", len(known))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study.set_metric_names(["score"])  # for optuna-dashboard
            # Through JSON, as it will be read back
            study.set_user_attr("settings", json.loads(settings.model_dump_json()))
    return study
