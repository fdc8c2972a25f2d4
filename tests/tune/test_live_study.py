"""The table of a study that runs, in terminals of several kinds, and the lines without one."""

import io
import re

import pytest
from rich.console import Console

from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.view import BestRow, FinishedRow, RunningRow, StudyView

CHANGES = {"learning_rate": 0.0031415, "gamma": 0.99993, "policy_kwargs.net_arch": [64, 64], "target_kl": None}
VIEW = StudyView(
    "CartPole-v1, ppo_ext: study bad-start",
    "search",
    {"complete": 8, "pruned": 3, "failed": 1, "running": 2, "waiting": 0},
    total=40,
    elapsed=751,
    remaining=430,
    running=(RunningRow(12, 2, 3, 30_000, 50_000, 431.2, "tpe"), RunningRow(13, 1, 3, 0, 50_000, None, "llm")),
    best=(BestRow(7, 455.0, "tpe", CHANGES), BestRow(0, 9.5, "start", {})),
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class AsciiTerminal(Terminal):
    encoding = "ascii"


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def show(*views, file=None, says=(), **kwargs):
    """What stays on the screen."""
    console = Console(file=file or Terminal(), **{"width": 80, "height": 40, **kwargs})
    with LiveTable(console) as table:
        for view in views:
            table.update(view)
        for line in says:
            table.say(line)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue().rsplit("\x1b[2K", 1)[-1]).replace("\r", "")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_shows_progress_running_and_best_trials_at_any_width(width):
    text = show(VIEW, width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == VIEW.title
    assert lines[1].startswith("search") and lines[1].endswith("12 of 40 trials, 0:12:31, about 0:07:10 left")
    assert lines[2].strip() == "8 complete, 3 pruned, 1 failed, 2 running"
    assert re.search(r"trial 12 +seed 2/3 +━+.* 30k of 50k +431\.2 +tpe", text)
    assert re.search(r"trial 13 +seed 1/3 .* 0 of 50k +llm", text)
    assert re.search(r"trial 7 +455 +tpe +learning_rate 0\.00314,", text)
    assert re.search(r"trial 0 +9\.5 +start +unchanged", text)


def test_a_hyperparameter_stays_on_the_line_of_its_name():
    text = show(VIEW, width=60)
    assert "policy_kwargs.net_arch [64, 64]," in text and "target_kl none" in text
    assert "gamma 0.99993," in text, "it is not 1"


def test_the_number_of_a_schedule_is_rounded():
    changes = {"learning_rate": "lin_1.0219766530350647e-05"}
    assert "learning_rate lin_1.02e-05\n" in show(VIEW._replace(best=(BestRow(7, 455.0, "tpe", changes),)))


def test_a_terminal_without_unicode_gets_ascii():
    assert show(VIEW, file=AsciiTerminal(), says=["50 → 100"]).isascii()


def test_a_terminal_without_colours_gets_none():
    file = Terminal()
    show(VIEW, file=file, no_color=True, color_system=None)
    assert not re.search(r"\x1b\[[0-9;]*m", file.getvalue())


def test_more_running_trials_than_lines_are_counted():
    many = VIEW._replace(running=tuple(VIEW.running[0]._replace(number=number) for number in range(100)))
    text = show(many, height=30)
    assert len(text.splitlines()) <= 30
    assert text.count("seed 2/3") + int(re.search(r"and (\d+) more", text)[1]) == 100
    assert "trial 7 " in text


def test_the_last_view_stays_on_the_screen():
    assert "finalists" in show(VIEW, VIEW._replace(phase="finalists"))


def test_a_trial_that_is_trained_again_is_named_once():
    assert show(VIEW._replace(running=(VIEW.running[0]._replace(proposed_by="trial 12"),))).count("trial 12") == 1


def test_a_budget_in_minutes_needs_no_number_of_trials():
    text = show(VIEW._replace(total=None, remaining=None))
    assert "12 trials, 0:12:31\n" in text


def test_a_study_without_trials_can_be_shown():
    empty = StudyView("CartPole-v1", "search", {}, 0, 0.0, None, (), ())
    assert show(empty).splitlines()[0] == "CartPole-v1"


def test_messages_are_above_the_table_and_masked():
    file = Terminal()
    show(VIEW, file=file, says=["storage [red] postgresql://me:secret@host/db"])
    text = file.getvalue()
    assert "storage [red] postgresql://me:***@host/db" in text
    assert text.rindex("storage") < text.rindex(VIEW.title)


def test_a_long_message_can_be_pasted_and_is_below_the_table_once_that_has_stopped():
    console = Console(file=Terminal(), width=80, height=40)
    with LiveTable(console) as table:
        table.update(VIEW)
        table.say("sb3-ext tune " + 100 * "x")
    table.say("below " + 100 * "x")
    assert f"sb3-ext tune {100 * 'x'}\n" in console.file.getvalue()
    assert console.file.getvalue().endswith(f"below {100 * 'x'}\n")


@pytest.mark.parametrize("kwargs", [{"file": io.StringIO()}, {"_environ": {"TERM": "dumb"}}], ids=["file", "dumb"])
def test_without_a_terminal_there_is_one_line_per_finished_trial(kwargs):
    first = VIEW._replace(
        finished=(FinishedRow("trial 12", "complete", 431.2), FinishedRow("trial 11", "pruned", 31.2))
    )
    second = first._replace(finished=(*first.finished, FinishedRow("trial 10", "failed", None)), remaining=None)
    assert show(VIEW, first, first, second, says=["a line " + 100 * "x"], **kwargs).splitlines() == [
        "trial 12: 431.2 (best 455 of trial 7), 0:12:31, about 0:07:10 left",
        "trial 11: pruned at 31.2 (best 455 of trial 7), 0:12:31, about 0:07:10 left",
        "trial 10: failed (best 455 of trial 7), 0:12:31",
        "a line " + 100 * "x",
    ]


def test_each_phase_has_its_own_lines():
    fresh = VIEW._replace(phase="fresh seeds", best=(), remaining=None)
    lines = show(
        VIEW._replace(finished=(FinishedRow("trial 12", "complete", 431.2),)),
        fresh._replace(finished=(FinishedRow("trial 7, fresh seed 1", "complete", 500.0),)),
        fresh._replace(
            finished=(
                FinishedRow("trial 7, fresh seed 1", "complete", 500.0),
                FinishedRow("start", "failed", float("nan")),
            )
        ),
        file=io.StringIO(),
    ).splitlines()
    assert lines[1:] == ["trial 7, fresh seed 1: 500, 0:12:31", "start: failed, 0:12:31"]
