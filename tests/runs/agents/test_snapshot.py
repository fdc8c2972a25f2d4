"""Folders of snapshots: gone when a training ends, however it ended."""

import os
import signal

import pytest

from sb3_ext.runs.agents.snapshot import SnapshotFolder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no locks that end with a process")


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "CartPole-v1_1"
    path.mkdir()
    return path


def killed_in(folder):
    """A training that was killed when it had a snapshot."""
    pid = os.fork()
    if pid == 0:
        try:
            snapshots = SnapshotFolder(str(folder))
            (snapshots.path / "100.zip").write_bytes(b"weights")
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("next_run", ["CartPole-v1_1", "CartPole-v1_2"])
def test_what_a_killed_training_left_is_deleted_by_the_next_one(run, next_run):
    killed_in(run)
    assert [path.name for path in run.glob("*/*.zip")] == ["100.zip"]
    (run.parent / next_run).mkdir(exist_ok=True)
    folder = SnapshotFolder(str(run.parent / next_run))
    assert list(run.parent.glob("*/.evaluation-*")) == [folder.path]


def test_snapshots_of_a_training_that_goes_on_stay(run):
    ours, other = SnapshotFolder(str(run)), SnapshotFolder(str(run))
    assert ours.path.is_dir() and other.path.is_dir()
    ours.close()
    assert list(run.iterdir()) == [other.path]
