"""A PostgreSQL server in a temporary folder, from Debian's package or any other on the PATH."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PASSWORD", "find_binaries", "postgres_server"]

PASSWORD = "pass-w0rd-of-the-test"


def find_binaries() -> Path | None:
    """The folder of ``initdb``, which Debian doesn't put on the PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """
    :param folder: empty; other users must be able to enter it, because PostgreSQL refuses to run as root
    :return: URL of an empty database, with its password
    """
    binaries = find_binaries()
    assert binaries is not None, "no PostgreSQL on this machine"
    password_file = folder / "password"
    password_file.write_text(PASSWORD)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        shutil.chown(password_file, "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    _run(
        folder,
        [
            binaries / "initdb",
            "-D",
            data,
            "-U",
            "tuner",
            "-A",
            "scram-sha-256",
            "--no-sync",
            f"--pwfile={password_file}",
        ],
    )
    options = f"-F -p {port} -k {folder} -c listen_addresses=127.0.0.1"
    start = [binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "server.log", "-o", options, "start"]
    _run(folder, start)
    try:
        yield f"postgresql://tuner:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        _run(folder, [binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"])


def _run(folder: Path, command: list[str | Path]) -> None:
    as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    with open(folder / "commands.log", "a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, cwd=folder, timeout=60, **as_user)
