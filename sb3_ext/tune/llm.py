"""A language model as sampler: it reads the report and the trials, and proposes the next one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import optuna
import yaml

from sb3_ext.common.clean_text import printable
from sb3_ext.common.names import nearest
from sb3_ext.tune.llm_command import LLMError, ask_program
from sb3_ext.tune.llm_prompt import correction, ranked, values_of, write_prompt
from sb3_ext.tune.samplers import LLM
from sb3_ext.tune.space import CantExpress, SearchSpace
from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.config.section_paths import write_value

__all__ = ["LLMError", "LLMProposer", "LLMTurns", "Proposal"]

_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Characters of a mapping; YAML takes very long for some that are not one
_MAX_YAML = 4_000
_NOTE = "note"
_MAX_NOTE = 500
#: Characters of a mistake, which may quote a value
_MAX_MISTAKE = 300
#: Failures in a row that end a study
_MAX_FAILURES = 3


class Proposal(NamedTuple):
    """
    :param params: Optuna's parameters
    :param section: what they make of the start
    :param note: why, in the model's words
    """

    params: dict[str, Any]
    section: dict[str, Any]
    note: str

    @property
    def attributes(self) -> dict[str, Any]:
        """Of the trial."""
        return {"proposed_by": LLM, "section": self.section, **({_NOTE: self.note} if self.note else {})}


class LLMProposer:
    """
    :param command: a program that reads a prompt on standard input and answers with YAML
    :param timeout: seconds for an answer
    """

    def __init__(self, command: str, timeout: float = 120.0):
        self._command = command
        self._timeout = timeout

    def propose(self, space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]) -> Proposal:
        """
        Mistakes in the answer are sent back once.

        :param start: the section that the study starts from
        :raises LLMError: when the program fails, or its second answer has mistakes too
        """
        prompt = write_prompt(space, study, start)
        answer = ask_program(self._command, prompt, self._timeout)
        proposal, mistakes = _read_answer(answer, space, study, start)
        if proposal is None:
            answer = ask_program(self._command, correction(prompt, answer, mistakes), self._timeout)
            proposal, mistakes = _read_answer(answer, space, study, start)
        if proposal is None:
            raise LLMError(f"--llm-command: two answers in a row can't be used. The last one: {mistakes[0]}")
        return proposal


class LLMTurns:
    """
    When to give up: a program that fails at its first call is a mistake of the user. Later, a sampler takes its place
    until it has failed three times in a row.

    :param say: tells the user of a failure
    """

    def __init__(self, proposer: LLMProposer, say: Callable[[str], None]):
        self._proposer = proposer
        self._say = say
        self._has_worked = False
        self._failures = 0

    def propose(self, space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]) -> Proposal | None:
        """
        :return: ``None`` for a trial that a sampler should propose
        :raises LLMError: when the study should end
        """
        try:
            proposal = self._proposer.propose(space, study, start)
        except LLMError as error:
            self._failures += 1
            if not self._has_worked or self._failures == _MAX_FAILURES:
                times = f"\nThis was failure {self._failures} in a row." if self._has_worked else ""
                advice = "The study is kept: continue it with the same command, or with another --sampler."
                raise LLMError(f"{error}{times}\n{advice}") from None
            self._say(f"{error} TPE proposes this trial instead.")
            return None
        self._has_worked, self._failures = True, 0
        return proposal


def _read_answer(
    answer: str, space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]
) -> tuple[Proposal | None, list[str]]:
    """:return: the proposal, or what is wrong with it"""
    given = _mapping_in(answer)
    if given is None:
        return None, ["The answer has no YAML mapping of keys to values."]
    note = printable(str(given.pop(_NOTE, "") or ""))[:_MAX_NOTE]
    params, mistakes = _params(given, space, study, start)
    if not mistakes:
        section = space.apply(start, params)
        mistakes = _problems(section, space) or _repeats(params, space, study)
    if mistakes:
        return None, [mistake[:_MAX_MISTAKE] for mistake in mistakes]
    return Proposal(params, section, note), []


def _mapping_in(answer: str) -> dict[str, Any] | None:
    """The last block that is one, or else the whole answer."""
    for text in (*reversed(_FENCED.findall(answer)), answer):
        if len(text) > _MAX_YAML:
            continue
        try:
            # An alias may stand for a value of any size
            if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
                continue
            found = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found:
            return {str(key): value for key, value in found.items()}
    return None


def _params(
    given: Mapping[str, Any], space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Optuna's parameters, or what is wrong. Missing keys have the best trial's values, or else their defaults."""
    dimensions = {dimension.key: dimension for dimension in space.dimensions}
    mistakes = []
    for key, value in given.items():
        try:
            dimensions[key].encode(value)
        except KeyError:
            mistakes.append(f"{key!r} is not a key of the search space: {nearest(key, dimensions)}")
        except CantExpress as error:
            mistakes.append(str(error))
    if mistakes:
        return {}, mistakes
    best = ranked(study)[:1]
    values = {**(values_of(space, best[0].params) if best else {}), **given}
    section = dict(start)
    for key in dimensions:
        if key in values:
            section = write_value(section, key, values[key])
    try:
        return space.params_of(section), []
    except CantExpress as error:
        return {}, [str(error)]


def _problems(section: dict[str, Any], space: SearchSpace) -> list[str]:
    problems = check_section(section, space.algo, space.env_id, str, has_budget=True)
    return [problem.text for problem in problems if not problem.is_warning]


def _repeats(params: dict[str, Any], space: SearchSpace, study: optuna.Study) -> list[str]:
    values = values_of(space, params)
    for trial in study.get_trials(deepcopy=False):
        if values_of(space, trial.params) == values:
            return [f"This is trial {trial.number} again: propose a configuration that has not been tried."]
    return []
