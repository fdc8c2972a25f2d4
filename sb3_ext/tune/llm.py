"""A language model as sampler: it reads the report and the trials, and proposes the next one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import optuna
import yaml
from rich.console import Console

from sb3_ext.common.clean_text import printable
from sb3_ext.common.names import nearest
from sb3_ext.tune.llm_command import LLMError, ask_program, split_command
from sb3_ext.tune.llm_prompt import correction, ranked, values_of, write_prompt
from sb3_ext.tune.samplers import LLM, turn_of
from sb3_ext.tune.space import CantExpress, SearchSpace
from sb3_ext.tune.study import Proposed, TuneStudy
from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.config.section_paths import write_value

__all__ = ["LLMError", "LLMProposals", "LLMProposer"]

_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Characters of a mapping; YAML takes very long for some that are not one
_MAX_YAML = 4_000
_NOTE = "note"
_MAX_NOTE = 500
#: Characters of a mistake, which may quote a value
_MAX_MISTAKE = 300
#: Failures in a row that end a study
_MAX_FAILURES = 3


class LLMProposer:
    """
    :param command: a program that reads a prompt on standard input and answers with YAML
    :param timeout: seconds for an answer
    """

    def __init__(self, command: str, timeout: float = 120.0):
        self._command = command
        self._timeout = timeout

    def propose(self, space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]) -> Proposed:
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


class LLMProposals:
    """
    The model's trials of a study. If its first call fails, that is a mistake of the user, and the study ends. Later, a
    sampler takes its place until it has failed three times in a row.

    :param console: for messages about failures
    :raises LLMError: when there is no such program
    """

    def __init__(self, command: str, timeout: float, console: Console):
        split_command(command)
        self._proposer = LLMProposer(command, timeout)
        self._console = console
        self._has_worked = False
        self._failures = 0

    def __call__(self, study: TuneStudy) -> Proposed | None:
        """
        :return: ``None`` if it is a sampler's turn, or if the model failed
        :raises LLMError: when the study should end
        """
        if turn_of(study.samplers, len(study.trials())) != LLM:
            return None
        try:
            proposal = self._proposer.propose(study.space, study.study, study.settings.start)
        except LLMError as error:
            self._failures += 1
            if not self._has_worked or self._failures == _MAX_FAILURES:
                times = f"\nThis was failure {self._failures} in a row." if self._has_worked else ""
                advice = "The study is kept: continue it with the same command, or with another --sampler."
                raise LLMError(f"{error}{times}\n{advice}") from None
            self._console.print(f"{error} TPE proposes this trial instead.", markup=False)
            return None
        self._has_worked, self._failures = True, 0
        return proposal


def _read_answer(
    answer: str, space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]
) -> tuple[Proposed | None, list[str]]:
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
    attributes = {"proposed_by": LLM, "section": section, _NOTE: note}
    return Proposed(params, {name: value for name, value in attributes.items() if value}), []


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
