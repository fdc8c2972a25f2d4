"""With a real server, which starts once for this file."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from claims import check_that_each_ran_once, open_study, start_claiming
from computed_pool import ComputedPool
from held_lock import holder_of
from postgres_server import PASSWORD, PostgresServer, find_binaries

from sb3_ext.cli.main import main
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.owners import Heartbeat, Owner
from sb3_ext.tune.storage import open_storage

pytest.importorskip("psycopg", reason="needs psycopg")
pytestmark = pytest.mark.skipif(find_binaries() is None, reason="needs PostgreSQL's server (apt install postgresql)")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """A new database."""
    name = f"db{abs(hash(request.node.name)):x}"
    server.execute(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.mark.parametrize(
    "wrong, reason",
    [
        ((PASSWORD, "guessed"), 'password authentication failed for user "tuner"'),
        (("/postgres", "/missing"), 'database "missing" does not exist'),
    ],
)
def test_a_wrong_address_gets_one_line_without_the_password(
    server: PostgresServer, tmp_path: Path, wrong: tuple[str, str], reason: str
) -> None:
    with pytest.raises(UsageError) as error:
        open_storage(server.url().replace(*wrong), tmp_path)
    message = str(error.value)
    assert message.startswith("--storage postgresql://tuner:***@127.0.0.1")
    assert reason in message
    assert "\n" not in message
    assert PASSWORD not in message


def test_the_password_can_be_in_the_environment(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_storage(server.url().replace(f":{PASSWORD}", ""), tmp_path)


def test_four_schedulers_one_of_them_killed_run_each_trial_once(url: str, tmp_path: Path) -> None:
    processes = [start_claiming(url, tmp_path, 8, dies_at=2 if number == 0 else None) for number in range(4)]
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL, 0, 0, 0]
    check_that_each_ran_once(url, tmp_path, 8)


def test_the_message_names_the_process_that_holds_the_lock(url: str, tmp_path: Path) -> None:
    process = holder_of(url, tmp_path)
    try:
        with pytest.raises(UsageError) as error, study_lock(url, tmp_path, "small", patience=0.2):
            pass
    finally:
        process.kill()
    assert f" {process.pid} (from 127.0.0.1)." in str(error.value)
    assert len(str(error.value).splitlines()) <= 3
    assert PASSWORD not in str(error.value)


def test_a_killed_process_does_not_keep_the_lock(url: str, tmp_path: Path) -> None:
    holder_of(url, tmp_path).kill()
    with study_lock(url, tmp_path, "small", patience=30):
        pass


def test_studies_of_one_database_have_their_own_locks(url: str, tmp_path: Path) -> None:
    with study_lock(url, tmp_path, "small"), study_lock(url, tmp_path, "large", patience=0.1):
        pass


def test_a_lock_whose_server_has_gone_ends_quietly(server: PostgresServer, url: str, tmp_path: Path) -> None:
    with study_lock(url, tmp_path, "small"):
        server.stop()
    server.start()
    with study_lock(url, tmp_path, "small", patience=1):
        pass


def test_a_study_and_its_heartbeat_survive_a_restart_of_the_server(
    server: PostgresServer, url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study, owner = open_study(url, tmp_path), Owner.of_this_process()
    with Heartbeat(study, owner, interval=0.01):
        server.stop()
        later = threading.Timer(1.0, server.start)
        later.start()
        with study_lock(url, tmp_path, "small"):
            trial = study.ask()
            owner.claim(trial)
        later.join()
        before = study.user_attrs[f"owner {owner.name}"]["heartbeat"]
        while study.user_attrs[f"owner {owner.name}"]["heartbeat"] == before:
            time.sleep(0.01)
    assert owner.owns(study, trial.number)
    written = capfd.readouterr()
    assert "The database can't be reached; trying again for 300 s" in written.out
    assert PASSWORD not in written.out + written.err


def test_the_command_writes_the_password_nowhere(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Workers don't know the storage
    monkeypatch.setattr("sb3_ext.tune.local_pool.LocalPool", lambda size, log: ComputedPool())
    words = ["tune", "CartPole-v1", "--trials", "2", "--timesteps", "200", "--seeds", "1", "--evaluations", "2"]
    words += ["--fresh-seeds", "3", "--workers", "1", "-f", str(tmp_path), "--storage", url]
    monkeypatch.setattr("sys.argv", ["sb3-ext", *words])
    assert main(words) == 0
    folder = tmp_path / "tune" / "ppo_ext_CartPole-v1"
    assert "postgresql://tuner:***@127.0.0.1" in (folder / "report.md").read_text(encoding="utf-8")
    assert [file for file in folder.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()] == []
    written = capfd.readouterr()
    assert PASSWORD not in written.out + written.err
