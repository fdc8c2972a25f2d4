"""A language model as sampler. Small programs stand in for the model."""

import functools
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import optuna
import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms
from rich.console import Console

from sb3_ext.tune.llm import LLMError, LLMProposals, LLMProposer
from sb3_ext.tune.llm_command import ask_program
from sb3_ext.tune.llm_prompt import write_prompt
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import SearchSpace
from sb3_ext.tune.study import TuneStudy
from sb3_ext.zoo.config.files import find_section

optuna.logging.set_verbosity(optuna.logging.ERROR)
START = find_section(None, "ppo_ext", "CartPole-v1", False).values


@functools.cache
def space() -> SearchSpace:
    return SearchSpace.read(None, "ppo_ext", "CartPole-v1").including(START)[0]


def settings(start, space) -> dict:
    known = {"algo": "ppo_ext", "env": "CartPole-v1", "timesteps": 5000}
    return StudySettings(**known, source={}, start=start, space=space.as_dict()).model_dump(mode="json")


def make_study(trials=1) -> optuna.Study:
    """The start, and trials whose best is the one with ``gae_lambda`` 0.95."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.set_user_attr("settings", settings(START, space()))
    study.enqueue_trial(space().params_of(START), user_attrs={"proposed_by": "start", "section": START})
    for number in range(trials):
        trial = study.ask()
        space().suggest(trial)
        trial.set_user_attr("section", space().apply(START, trial.params))
        study.tell(trial, 100.0 if number == 0 else 50.0 - number)
    return study


def program(tmp_path, code) -> str:
    path = tmp_path / "model.py"
    path.write_text(f"import os, sys, time\nprompt = sys.stdin.read()\n{code}\n", encoding="utf-8")
    return f"'{sys.executable}' -S {path}"


def answering(tmp_path, *answers) -> str:
    """One answer for each call. The prompts are kept."""
    for number, answer in enumerate(answers):
        (tmp_path / f"answer {number}").write_text(answer)
    return program(
        tmp_path,
        f"folder = {str(tmp_path)!r}\n"
        "n = len([name for name in os.listdir(folder) if name.startswith('prompt')])\n"
        "open(f'{folder}/prompt {n}', 'w').write(prompt)\n"
        "print(open(f'{folder}/answer {n}').read())",
    )


def propose(command, study=None, timeout=20.0):
    return LLMProposer(command, timeout).propose(space(), study or make_study(), START)


@pytest.mark.parametrize(
    "answer",
    [
        "gae_lambda: 9e-1\nnote: less variance",
        "Sure! I would raise it:\n```yaml\ngae_lambda: 0.9\nnote: less variance\n```\nGood luck!",
        "```\ngae_lambda: 2\n```\nNo, rather:\n```yaml\ngae_lambda: 0.9\nnote: less variance\n```",
        '{"gae_lambda": 0.9, "note": "less variance"}',
    ],
)
def test_an_answer_becomes_a_trial_and_missing_keys_keep_the_best_trials_values(tmp_path, answer):
    proposal = propose(answering(tmp_path, answer))
    assert proposal.attributes["note"] == "less variance"
    assert proposal.attributes["section"] == {**START, "gae_lambda": 0.9}
    study = make_study()
    study.enqueue_trial(proposal.params, user_attrs=proposal.attributes)
    trial = study.ask()
    space().suggest(trial)
    assert space().apply(START, trial.params) == proposal.attributes["section"]


def test_a_key_that_the_proposal_makes_count_has_its_default(tmp_path):
    assert START["learning_rate"] == "lin_0.001"
    proposal = propose(answering(tmp_path, "learning_rate: 0.001"))
    assert proposal.attributes["section"]["kl_adaptive_lr"] is None


def test_the_prompt_has_space_start_report_trials_and_rules(tmp_path):
    propose(answering(tmp_path, "learning_rate: 0.001"), make_study(3))
    prompt = (tmp_path / "prompt 0").read_text()
    assert "environment: CartPole-v1" in prompt
    assert space().describe() in prompt
    assert "n_timesteps: " in prompt
    assert "study " in prompt
    assert "\n0 | start | 100 | " in prompt
    assert "Keys that you leave out keep the value of trial 0, the best so far." in prompt


def test_the_prompt_does_not_grow_with_the_number_of_trials():
    lengths = [len(write_prompt(space(), make_study(trials), START)) for trials in (60, 120)]
    assert abs(lengths[1] - lengths[0]) < 0.03 * lengths[0]
    assert lengths[1] < 20_000


def test_passwords_in_the_section_are_not_sent():
    start = {**START, "env_kwargs": {"server": "https://me:secret@host"}}
    assert "secret" not in write_prompt(space(), make_study(), start)


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        ("learnin_rate: 0.001", "'learnin_rate' is not a key of the search space: did you mean 'learning_rate'?"),
        ("learning_rate: 7", "learning_rate: 7 is not from 1e-05 to 0.01"),
        ("n_epochs: many", "n_epochs: 'many' is not one of"),
        ("Increase the learning rate.", "The answer has no YAML mapping"),
        ("a: [&x [1], *x]", "The answer has no YAML mapping"),
        ("[" * 1000, "The answer has no YAML mapping"),
        ("note: I like it as it is", "This is trial 0 again"),
    ],
)
def test_a_mistake_is_sent_back_once_and_a_correct_answer_is_used(tmp_path, answer, mistake):
    proposal = propose(answering(tmp_path, answer, "learning_rate: 0.001"))
    assert proposal.attributes["section"]["learning_rate"] == 0.001
    second = (tmp_path / "prompt 1").read_text()
    assert second.startswith((tmp_path / "prompt 0").read_text())
    assert f"It can't be used:\n- {mistake}" in second


def test_the_section_is_checked_by_the_config_schema(tmp_path):
    (tmp_path / "space.yml").write_text("n_steps: [1, 32]\nn_envs: [1, 8]\nbatch_size: [256]\n")
    start = {**START, "n_steps": 32, "batch_size": 256, "n_envs": 8}
    wide = SearchSpace.read(tmp_path / "space.yml", "ppo_ext", "CartPole-v1")
    study = optuna.create_study(direction="maximize")
    study.set_user_attr("settings", settings(start, wide))
    with pytest.raises(LLMError, match=r"must be at least 2"):
        LLMProposer(answering(tmp_path, *["n_steps: 1\nn_envs: 1"] * 2), 20).propose(wide, study, start)


def test_two_answers_with_mistakes_are_an_error_with_the_mistake(tmp_path):
    with pytest.raises(LLMError, match=r"^--llm-command: two answers in a row can't be used.*did you mean 'gamma'\?$"):
        propose(answering(tmp_path, "gama: 1", "gama: 1"))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit('first\\nno credits left')", "ended with code 1: no credits left"),
        ("os.kill(os.getpid(), 15)", "was ended by SIGTERM"),
        ("print(' ')", "answered nothing"),
        ("sys.stdout.buffer.write(b'note: \\xff')", r"not encoded in UTF-8 \(byte 6\)"),
        ("while True: print('y' * 1000)", "the answer is longer than 200,000 bytes"),
        ("while True: print('y' * 1000, file=sys.stderr)", r"no answer within 0.5 s \(--llm-timeout\)"),
        ("time.sleep(100)", r"no answer within 0.5 s \(--llm-timeout\)"),
        ("os.close(1); os.close(2); time.sleep(100)", "no answer within 0.5 s"),
    ],
)
def test_a_program_that_fails_is_one_clear_line(tmp_path, code, message):
    with pytest.raises(LLMError, match=f"^--llm-command: .*{message}") as error:
        ask_program(program(tmp_path, code), "prompt", 20.0 if "sleep" not in code and "stderr" not in code else 0.5)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-model -m x", "there is no program 'no-such-model'"),
        ("'unclosed", "can't be read: No closing quotation"),
        ("", "is empty"),
        (__file__, "is not executable: run chmod"),
    ],
)
def test_a_command_that_cant_be_started_is_refused_before_the_study(command, message):
    with pytest.raises(LLMError, match=message):
        LLMProposals(command, 20.0, Console())


def test_no_shell_reads_the_command(tmp_path):
    command = program(tmp_path, "print(sys.argv[1:])")
    assert ask_program(f"{command} '$HOME' ; false", "", 20.0) == "['$HOME', ';', 'false']\n"


def test_a_program_that_does_not_read_a_long_prompt_may_answer(tmp_path):
    assert ask_program("echo gamma: 0.9", "long " * 100_000, 20.0) == "gamma: 0.9\n"


FORK = """
pid = os.fork()
if pid == 0:
    time.sleep(1000)
open({file!r}, "w").write(str(pid))
"""


@pytest.mark.parametrize("parent_hangs", [False, True])
def test_children_of_the_program_are_killed_with_it(tmp_path, parent_hangs):
    end = "time.sleep(1000)" if parent_hangs else "print('gamma: 0.9', flush=True)"
    command = program(tmp_path, FORK.format(file=str(tmp_path / "pid")) + end)
    if parent_hangs:
        with pytest.raises(LLMError, match="no answer"):
            ask_program(command, "", 2.0)
    else:
        # The child keeps the pipe open, but the program has ended
        assert ask_program(command, "", 200.0) == "gamma: 0.9\n"
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if os.path.exists(f"/proc/{child}/stat") and ") Z " in open(f"/proc/{child}/stat").read():
            return  # whoever adopted it has not noticed yet
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child lives on")


def tune_study(samplers=("llm",)) -> TuneStudy:
    study = make_study()
    return TuneStudy(study, StudySettings.read(study.user_attrs["settings"], "settings"), nullcontext, samplers)


def test_if_the_first_call_fails_the_study_ends(capsys):
    with pytest.raises(LLMError, match=r"'false' ended with code 1\.\nThe study is kept"):
        LLMProposals("false", 20.0, Console())(tune_study())
    assert capsys.readouterr().out == ""


def test_later_failures_leave_the_trial_to_tpe_and_three_in_a_row_end_the_study(tmp_path, capsys):
    answers = ["gamma: 0.95", *["no idea"] * 2, "gamma: 0.96", *["no idea"] * 6]
    propose = LLMProposals(answering(tmp_path, *answers), 20.0, Console(width=200))
    study = tune_study()
    assert [propose(study) is None for _ in range(5)] == [False, True, False, True, True]
    assert capsys.readouterr().out.count("TPE proposes this trial instead.") == 3
    with pytest.raises(LLMError, match="failure 3 in a row"):
        propose(study)


def test_the_model_is_asked_only_in_its_turn(tmp_path):
    propose = LLMProposals(answering(tmp_path, "gamma: 0.95"), 20.0, Console())
    assert propose(tune_study(("llm", "tpe"))) is None
    assert propose(tune_study(("tpe", "llm"))) is not None


def test_the_program_in_the_docs_climbs_from_the_best_trial_that_it_is_shown(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "tuning_llm.md").read_text(encoding="utf-8")
    path = tmp_path / "propose.py"
    path.write_text(page.split("```py\n")[1].split("```")[0], encoding="utf-8")
    study = make_study()
    for _ in range(8):
        proposal = propose(f"'{sys.executable}' -S {path}", study)
        study.enqueue_trial(proposal.params, user_attrs=proposal.attributes)
        trial = study.ask()
        space().suggest(trial)
        study.tell(trial, 200 - 1000 * abs(proposal.attributes["section"]["gamma"] - 0.96))
    assert abs(study.best_trial.user_attrs["section"]["gamma"] - 0.96) < abs(START["gamma"] - 0.96)
    assert study.best_trial.user_attrs["note"].startswith("near trial ")
