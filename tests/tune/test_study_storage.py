import json
import sqlite3
import threading
from pathlib import Path

import optuna
import pytest
from filelock import FileLock

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.storage import open_storage

PASSWORD = "hush-hush"


def study_in(url: str | None, folder: Path) -> optuna.Study:
    storage = open_storage(url, folder)
    return optuna.create_study(storage=storage, study_name="small", load_if_exists=True)


def add_trials(study: optuna.Study, count: int) -> None:
    for _ in range(count):
        study.tell(study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}), 1.0)


def message_of(url: str | None, folder: Path, patience: float = 0.1) -> str:
    with pytest.raises(UsageError) as error:
        open_storage(url, folder, patience=patience)
    return str(error.value)


def test_without_a_url_the_study_is_a_journal_in_its_folder(tmp_path: Path) -> None:
    add_trials(study_in(None, tmp_path / "tune" / "small"), 2)
    assert (tmp_path / "tune" / "small" / "study.log").is_file()
    assert len(study_in(None, tmp_path / "tune" / "small").trials) == 2


@pytest.mark.parametrize("form", ["{}/new/my.log", "file://{}/new/my.log", "sqlite:///{}/new/my.db"])
def test_a_url_names_a_file_whose_folder_need_not_exist(tmp_path: Path, form: str) -> None:
    add_trials(study_in(form.format(tmp_path), tmp_path / "of the study"), 2)
    assert (tmp_path / "of the study").is_dir()
    assert (tmp_path / "new" / f"my.{form.rpartition('.')[2]}").is_file()
    assert len(study_in(form.format(tmp_path), tmp_path).trials) == 2


@pytest.mark.parametrize("kept", [1, 10, 50])
def test_a_journal_with_a_half_written_entry_is_continued(tmp_path: Path, kept: int) -> None:
    add_trials(study_in(None, tmp_path), 2)
    journal = tmp_path / "study.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines()[-1][:kept])
    add_trials(study_in(None, tmp_path), 1)
    assert len(study_in(None, tmp_path).trials) == 3
    assert journal.read_bytes().startswith(whole)


def test_an_open_study_survives_the_half_written_entry_of_another_process(tmp_path: Path) -> None:
    study = study_in(None, tmp_path)
    add_trials(study, 1)
    with (tmp_path / "study.log").open("ab") as journal:
        journal.write(b'{"op_code":4,"wor')
    add_trials(study, 1)
    assert [t.number for t in study_in(None, tmp_path).trials] == [0, 1]


def test_the_lock_of_a_killed_writer_is_not_waited_for(tmp_path: Path) -> None:
    study = study_in(None, tmp_path)
    # What a killed process leaves of Optuna's own lock
    (tmp_path / "study.log.lock").symlink_to(tmp_path / "study.log")
    writer = threading.Thread(target=add_trials, args=(study, 1), daemon=True)
    writer.start()
    writer.join(timeout=15)
    assert not writer.is_alive()


@pytest.mark.parametrize("content", [b"step,reward\n1,2\n", b"notes", b'{"op_code"\n', b"SQLite format 3\0", b"\n"])
def test_a_file_of_another_kind_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.log"
    file.write_bytes(content)
    assert message_of(str(file), tmp_path) == (
        f"{file} is not a journal of Optuna: line 1 is not an entry. Use another file."
    )
    assert file.read_bytes() == content


def test_a_broken_entry_is_named_with_its_line(tmp_path: Path) -> None:
    add_trials(study_in(None, tmp_path), 1)
    journal = tmp_path / "study.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], lines[2][:20] + lines[2], *lines[3:]]))
    assert message_of(None, tmp_path).endswith("line 3 is not an entry. Delete line 3.")


def test_a_journal_of_a_newer_optuna_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.log").write_text(json.dumps({"op_code": 999, "worker_id": "a"}, separators=(",", ":")) + "\n")
    message = message_of(None, tmp_path)
    assert message.endswith(f"Optuna {optuna.__version__} can't read its entries. Use another file.")


@pytest.mark.parametrize("url", [None, "{}/study.log", "sqlite:///{}/study.db"])
def test_a_folder_that_cant_be_written_is_named(tmp_path: Path, url: str | None) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    message = message_of(url and url.format(no_folder), no_folder)
    assert message == f"The folder {no_folder} can't be written: File exists."


@pytest.mark.parametrize("url", ["/proc/study.log", "sqlite:////proc/study.db"])
def test_a_folder_of_the_system_is_refused_at_once(tmp_path: Path, url: str) -> None:
    # filelock takes the error of /proc for a lock of another process
    assert message_of(url, tmp_path, patience=60).startswith("The folder /proc can't be written: ")


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}"])
def test_a_folder_is_not_a_storage(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "a.log"
    folder.mkdir()
    assert str(folder) in message_of(url.format(folder), tmp_path)


@pytest.mark.parametrize(
    "url",
    ["mongodb://me:hush-hush@host/db", "mysql://me:hush-hush@host/db", "studies.db", "studies", "", "redis://x.log"],
)
def test_an_unknown_kind_of_storage_is_refused(tmp_path: Path, url: str) -> None:
    message = message_of(url, tmp_path)
    assert "is not a storage. Expected a journal file" in message
    assert PASSWORD not in message


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(tmp_path: Path, url: str) -> None:
    assert "has no file" in message_of(url, tmp_path)


@pytest.mark.parametrize("content", [b"notes of someone " * 99, None])
def test_a_broken_sqlite_file_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "study.db"
    url = f"sqlite:///{file}"
    if content is None:
        open_storage(url, tmp_path).engine.dispose()  # type: ignore[attr-defined]
        content = file.read_bytes()[: file.stat().st_size // 2]
    file.write_bytes(content)
    message = message_of(url, tmp_path)
    assert message.startswith(f"--storage {url} can't be used: ")
    assert "\n" not in message


def test_a_database_of_a_newer_optuna_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study_in(url, tmp_path)
    with sqlite3.connect(tmp_path / "study.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
    assert message_of(url, tmp_path) == (
        f"--storage {url} was written by another release of Optuna than {optuna.__version__}. "
        "Run `pip install -U optuna`, or use another storage."
    )


def test_a_locked_sqlite_file_is_waited_for_and_then_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study_in(url, tmp_path)
    database = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    try:
        assert message_of(url, tmp_path) == (
            f"--storage {url} can't be used: database is locked. "
            "Close the program that writes to it, and run the command again."
        )
    finally:
        database.close()
    assert capsys.readouterr().out == f"Waiting: {url} is locked by another process.\n"


@pytest.mark.parametrize("port", ["1", "no:port"])
def test_a_server_that_cant_be_reached_is_named_without_its_password(tmp_path: Path, port: str) -> None:
    pytest.importorskip("psycopg")
    message = message_of(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/db", tmp_path)
    assert "--storage postgresql://me:***@127.0.0.1" in message
    assert ("Connection refused" if port == "1" else "can't be read") in message
    assert len(message.splitlines()) <= 3


def test_a_missing_driver_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = message_of(f"postgresql://me:{PASSWORD}@host/db", tmp_path)
    assert message == "--storage postgresql://me:***@host/db needs pip install 'sb3-ext[postgresql]'."


def test_processes_that_open_a_new_sqlite_file_at_once_all_succeed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    errors: list[BaseException] = []

    def open_it() -> None:
        try:
            open_storage(url, tmp_path)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_writer_that_hangs_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr("sb3_ext.tune.storage.PATIENCE", 0.1)
    storage = open_storage(None, tmp_path)
    with FileLock(tmp_path / ".study.log.write.lock"), pytest.raises(UsageError, match="If it hangs, end it"):
        optuna.create_study(storage=storage)
