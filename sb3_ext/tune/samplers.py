"""Samplers by name. Each trial has its own, so that a study continues after a kill as if nothing had happened."""

from __future__ import annotations

import json
import logging
import warnings
import zlib
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, QMCSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sb3_ext.common.names import suggestion
from sb3_ext.common.usage_error import UsageError

__all__ = ["LLM", "SAMPLERS", "make_sampler", "sampler_for", "sampler_names", "turn_of"]

#: A language model proposes: see :mod:`sb3_ext.tune.llm`
LLM = "llm"
SAMPLERS = ("tpe", "cmaes", "gp", "qmc", "random", LLM)
_FALLBACK = "tpe"

Space = dict[str, BaseDistribution]


def sampler_names(value: str) -> tuple[str, ...]:
    """
    :param value: of ``--sampler``: names with commas between them, which take turns: ``llm,tpe``
    :raises UsageError: when there is no such sampler
    """
    names = tuple(name.strip() for name in value.split(","))
    for name in names:
        if name not in SAMPLERS:
            known = ", ".join(SAMPLERS)
            raise UsageError(f"--sampler {value}: {name!r} is not one of {known}{suggestion(name, SAMPLERS)}")
    return names


def turn_of(names: Sequence[str], number: int) -> str:
    """:return: name of the sampler that proposes the trial with this number"""
    return names[number % len(names)]


def sampler_for(study: Study, names: Sequence[str], seed: int, *, n_startup: int) -> tuple[str, BaseSampler]:
    """
    The name and the sampler for the trial that ``study.ask()`` returns next. Call it inside the study's lock. If it is
    a language model's turn and nothing of it was enqueued, TPE takes its place.

    A trial that has all its parameters, because it was enqueued or given back, must not be sampled again: the
    sampler's notes on it would no longer fit its parameters.
    """
    trials = study.get_trials(deepcopy=False)
    waiting = next((trial for trial in trials if trial.state == TrialState.WAITING), None)
    number = len(trials) if waiting is None else waiting.number
    name = _FALLBACK if turn_of(names, number) == LLM else turn_of(names, number)
    has_parameters = False
    if waiting is not None:
        name = waiting.user_attrs.get("proposed_by", name)
        has_parameters = "section" in waiting.user_attrs or "fixed_params" in waiting.system_attrs
    return name, make_sampler("random" if has_parameters else name, seed, number, n_startup=n_startup)


def make_sampler(name: str, seed: int, number: int, *, n_startup: int) -> BaseSampler:
    """
    :param name: one of :data:`SAMPLERS`, except that of a language model
    :param seed: of the study
    :param number: of the trial to sample for
    :param n_startup: random trials before ``tpe``, ``cmaes`` and ``gp`` start to learn
    """
    if name == "random":
        return _ReplayableSampler(lambda entropy: RandomSampler(seed=entropy), seed, number)
    if name == "qmc":
        return _ReplayableSampler(lambda entropy: _SobolSampler(_seed_from(seed), number, entropy), seed, number)
    make = {"tpe": _make_tpe, "cmaes": _make_cmaes, "gp": _make_gp}[name]
    return _ReplayableSampler(lambda entropy: make(entropy, n_startup), seed, number)


class _ReplayableSampler(BaseSampler):
    """
    Each parameter that is sampled by itself has its own random numbers. A trial that was killed when only some of its
    parameters were stored gets the same ones for the rest.

    :param make: a new sampler with the given seed
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int, number: int):
        self._make = make
        self._entropy = (seed, number)
        self._joint = self._quietly(_seed_from(seed, number))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Space:
        return self._joint.infer_relative_search_space(study, trial)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Space) -> dict[str, Any]:
        return self._joint.sample_relative(study, trial, search_space)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        sampler = self._quietly(_seed_from(*self._entropy, zlib.crc32(param_name.encode())))
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def _quietly(self, seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return self._make(seed)


class _SobolSampler(QMCSampler):
    """
    One sequence for all trials of a study, with the trial's number as index. Optuna counts in the study's attributes:
    a trial that is sampled again would shift all that follow.

    :param scrambling: seed of the sequence
    :param seed: for parameters that the first trial did not have
    """

    def __init__(self, scrambling: int, number: int, seed: int):
        random = RandomSampler(seed=seed)
        super().__init__(scramble=True, seed=scrambling, independent_sampler=random, warn_independent_sampling=False)
        self._number = number

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> Space:
        # Storages return the parameters in different orders, and each has its own dimension of the sequence
        return dict(sorted(super().infer_relative_search_space(study, trial).items()))

    def _find_sample_id(self, study: Study, search_space: Space) -> int:
        return self._number


class _GPSampler(GPSampler):
    """A trial that is sampled again keeps what it was given. It must not take itself for one that runs elsewhere."""

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Space) -> dict[str, Any]:
        stored = (trial.system_attrs.get(f"gp:relative_params:{i}") for i in count())
        if text := "".join(takewhile(bool, stored)):  # type: ignore[arg-type]
            return json.loads(text)
        return super().sample_relative(study, trial, search_space)


def _make_tpe(seed: int, n_startup: int) -> BaseSampler:
    """Groups let it model conditional parameters together too; other workers' trials count as bad until they end."""
    return TPESampler(seed=seed, n_startup_trials=n_startup, multivariate=True, group=True, constant_liar=True)


def _make_cmaes(seed: int, n_startup: int) -> BaseSampler:
    """
    The margin keeps integers from freezing at one value. Pruned trials count with their last score: without them,
    a generation would consist of good trials only. CMA-ES can't sample choices and conditional parameters. TPE can,
    and learns from all trials too.
    """
    return CmaEsSampler(
        seed=seed,
        n_startup_trials=n_startup,
        with_margin=True,
        consider_pruned_trials=True,
        independent_sampler=_make_tpe(seed, n_startup),
        warn_independent_sampling=False,
    )


def _make_gp(seed: int, n_startup: int) -> BaseSampler:
    """It models the parameters that all trials have, choices included; TPE samples the conditional ones."""
    # It would recommend greenlet, which saves milliseconds
    logging.getLogger("optuna._gp.batched_lbfgsb").setLevel(logging.ERROR)
    tpe = _make_tpe(seed, n_startup)
    return _GPSampler(seed=seed, n_startup_trials=n_startup, independent_sampler=tpe, warn_independent_sampling=False)


def _seed_from(*entropy: int) -> int:
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])
