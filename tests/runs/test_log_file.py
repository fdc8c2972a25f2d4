"""``run.log``: what a training said."""

import re
import warnings

import pytest

from sb3_ext.common.clean_text import listeners, say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.log_file import LogFile


@pytest.fixture
def log(tmp_path):
    log = LogFile(tmp_path)
    yield log
    log.close()


def texts(log):
    """Lines without their times."""
    lines = log.path.read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines)
    return [line[20:] for line in lines]


def test_messages_and_warnings_are_written_at_once_and_still_shown(tmp_path):
    with pytest.warns(UserWarning, match="too small"):
        log = LogFile(tmp_path)
        say("Stage 'calm' begins")
        say("not shown", verbose=0)
        warnings.warn("batch_size is too small", stacklevel=1)
    stage, warned = texts(log)
    assert stage == "Stage 'calm' begins" and warned.startswith("UserWarning: batch_size is too small (")
    log.close()


def test_after_the_end_nothing_is_written(log):
    log.end("finished")
    say("later")
    assert texts(log) == ["finished"] and log.write not in listeners


def test_a_second_training_in_the_folder_is_appended(log, tmp_path):
    say("first")
    again = LogFile(tmp_path)
    say("second")
    again.close()
    assert texts(log) == ["first", "second"]


def test_the_traceback_of_an_error_is_written(log):
    try:
        {}["missing"]
    except KeyError as error:
        log.end("Run failed at step 8", error)
    written = log.path.read_text()
    assert "Run failed at step 8\nTraceback" in written and written.endswith("KeyError: 'missing'\n")


@pytest.mark.parametrize("error", [UsageError("no such key"), KeyboardInterrupt()])
def test_a_mistake_and_an_interruption_have_no_traceback(log, error):
    log.end("Run ended", error)
    assert texts(log) == ["Run ended: no such key" if isinstance(error, UsageError) else "Run ended"]


def test_passwords_and_control_characters_are_left_out(log):
    log.write("postgresql://me:secret@host/db \x1b[2J")
    log.end("failed", ValueError("postgresql://me:secret@host/db"))
    written = log.path.read_text()
    assert "secret" not in written and "\x1b" not in written and written.count("me:***@host") == 2


def test_a_text_that_is_said_a_million_times_is_written_ten_times(log):
    for _ in range(1_000):
        log.write("again")
    assert texts(log) == [*["again"] * 9, "again (said 10 times; not written again)"]


def test_a_file_that_grows_too_much_gets_only_the_end(log):
    for number in range(30):
        log.write(f"{number:02}" + "x" * 500_000)
    log.end("Run finished")
    assert log.path.stat().st_size < 6_000_000
    assert [text[:30] for text in texts(log)[-2:]] == ["This file has become too large", "Run finished"]


def test_a_file_that_can_not_be_written_is_a_warning(tmp_path):
    (tmp_path / "run.log").mkdir()
    with pytest.warns(UserWarning, match=r"run\.log can't be written .*Training continues without it"):
        log = LogFile(tmp_path)
    log.write("lost")
    log.end("finished")


def test_a_full_disk_is_one_warning(tmp_path):
    (tmp_path / "run.log").symlink_to("/dev/full")
    log = LogFile(tmp_path)
    with pytest.warns(UserWarning, match="No space left") as warned:
        for number in range(3):
            say(f"lost {number}")
    assert len(warned) == 1
    log.close()
