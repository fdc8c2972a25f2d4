import os
import signal
from pathlib import Path

import pytest
from held_lock import holder_of

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.lock import study_lock

URLS = pytest.mark.parametrize("url", [None, "sqlite:///{}/study.db"], ids=["journal", "sqlite"])


@URLS
def test_the_message_names_the_process_that_holds_the_lock(tmp_path: Path, url: str | None) -> None:
    url = url and url.format(tmp_path)
    process = holder_of(url, tmp_path)
    try:
        with pytest.raises(UsageError) as error, study_lock(url, tmp_path, "small", patience=0.2):
            pass
    finally:
        process.kill()
    assert str(error.value).startswith("Study 'small' in ")
    assert f"has been locked for 0.2 s by process {process.pid} (" in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


@URLS
def test_a_wait_is_told_once(tmp_path: Path, url: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    url = url and url.format(tmp_path)
    process = holder_of(url, tmp_path)
    try:
        for _ in range(2):
            with pytest.raises(UsageError), study_lock(url, tmp_path, "small", patience=0.02):
                pass
    finally:
        process.kill()
    assert capsys.readouterr().out == (
        f"Waiting: Study 'small' in {url or tmp_path / 'study.log'} is locked by another process.\n"
    )


@URLS
def test_a_killed_process_does_not_keep_the_lock(tmp_path: Path, url: str | None) -> None:
    url = url and url.format(tmp_path)
    process = holder_of(url, tmp_path)
    os.kill(process.pid or 0, signal.SIGKILL)
    with study_lock(url, tmp_path, "small", patience=30):
        pass


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), study_lock(None, tmp_path, "small"):
        raise ZeroDivisionError
    with study_lock(None, tmp_path, "small", patience=0):
        pass


def test_studies_of_one_file_have_their_own_locks(tmp_path: Path) -> None:
    with study_lock(None, tmp_path, "small"), study_lock(None, tmp_path, "a/large one", patience=0):
        pass
