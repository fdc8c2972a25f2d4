"""Disks without space: ``/dev/full``, and the limit of a file's size, which the system enforces in the same way."""

import errno
import resource

import pytest

from sb3_ext.common import full_disk
from sb3_ext.common.full_disk import WholeLines, tolerate_full_disk


@pytest.fixture(autouse=True)
def nothing_announced(monkeypatch):
    monkeypatch.setattr(full_disk, "_announced", set())


@pytest.fixture
def small_files():
    """Files can't grow beyond 20 bytes. Pytest must not write to one meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_line_that_does_not_fit_is_left_out_as_a_whole(tmp_path):
    file = WholeLines(tmp_path / "log.csv")
    with pytest.warns(UserWarning, match=f"{tmp_path}: File too large. Training goes on") as warned:
        for line in ("first,line\n", "second,line\n", "3,4\n", "fourth,line\n"):
            file.write(line)
            file.flush()
    file.close()
    assert (tmp_path / "log.csv").read_text() == "first,line\n3,4\n"
    assert len(warned) == 1


def test_each_folder_is_announced_once(tmp_path):
    def fail(folder):
        with tolerate_full_disk(folder):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.warns(UserWarning, match="No space left on device") as warned:
        for _ in range(2):
            fail(tmp_path / "a")
            fail(tmp_path / "b")
    assert len(warned) == 2


def test_other_errors_are_raised(tmp_path):
    with pytest.raises(PermissionError), tolerate_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
