"""A PostgreSQL server in a temporary folder, from Debian's package or any other on the PATH."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["PASSWORD", "PostgresServer", "find_binaries"]

PASSWORD = "pass-w0rd-of-the-test"


def find_binaries() -> Path | None:
    """The folder of ``initdb``, which Debian doesn't put on the PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


class PostgresServer:
    """It has a folder of its own: PostgreSQL refuses to run as root, and other users can't enter pytest's folders."""

    def __enter__(self) -> "PostgresServer":
        binaries = find_binaries()
        assert binaries is not None, "no PostgreSQL on this machine"
        self._binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        password = self._folder / "password"
        password.write_text(PASSWORD)
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self._folder, "postgres")
            shutil.chown(password, "postgres")
        self._run("initdb", "-U", "tuner", "-A", "scram-sha-256", "--no-sync", f"--pwfile={password}")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        options = f"-F -p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "start", "-w", "-l", str(self._folder / "server.log"), "-o", options)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://tuner:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._folder / "data"), *arguments]
        with open(self._folder / "commands.log", "a") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd=self._folder, timeout=60, **self._as_user)
