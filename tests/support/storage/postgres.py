"""A real PostgreSQL for tests: a server of the session's own, with data that goes with it. One database a test.

Uses the programs that are installed (Debian: package `postgresql`). Without them tests are skipped, but not in CI.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from headrace.processes.ports import free_port
from support.processes.running import wait_until

USER, PASSWORD = "headrace", "a secret of tests"
_UNPRIVILEGED = 65534
"""`nobody`: the server refuses to run as root."""
_PORTS_MAX = 5
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
}


class _EndedError(Exception):
    """A server that did not stay; with its log."""


class Postgres:
    """A server on a free port. A test that stops or kills one starts its own."""

    def __init__(self, programs: Path) -> None:
        # not in pytest's folder, which nobody but this user may enter
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        self._programs = programs
        self._data = self._folder / "data"
        self.port = 0
        self._server: subprocess.Popen[bytes] | None = None
        try:
            self._make_data()
            self._start_on_a_free_port()
        except BaseException:
            self.close()
            raise

    def _make_data(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (self._folder, secret):
                os.chown(path, _UNPRIVILEGED, _UNPRIVILEGED)
        made = self._run(
            "initdb", "--pgdata", str(self._data), "--username", USER, "--pwfile", str(secret), "--no-sync",
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
        )  # fmt: skip
        out, _ = made.communicate()
        assert made.returncode == 0, out.decode()

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        other = _UNPRIVILEGED if os.geteuid() == 0 else None
        return subprocess.Popen(
            # a test that is killed takes the server along
            ["setpriv", "--pdeathsig", "QUIT", str(self._programs / program), *arguments],
            user=other,
            group=other,
            extra_groups=None if other is None else [],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _start_on_a_free_port(self) -> None:
        """One that is free may be taken a moment later: another one then."""
        for _ in range(_PORTS_MAX):
            self.port = free_port()
            with suppress(_EndedError):
                return self.start()
        raise AssertionError((self._folder / "log").read_text())

    def start(self) -> None:
        """Starts it, on the same port as before."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        log = (self._folder / "log").open("ab")
        other = _UNPRIVILEGED if os.geteuid() == 0 else None
        with log:
            self._server = subprocess.Popen(
                ["setpriv", "--pdeathsig", "QUIT", str(self._programs / "postgres"),
                 "-D", str(self._data), "-p", str(self.port), *settings],
                user=other, group=other, extra_groups=None if other is None else [], cwd=self._folder,
                stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._answers, "PostgreSQL answers")

    def _answers(self) -> bool:
        assert self._server is not None
        if self._server.poll() is not None:
            raise _EndedError((self._folder / "log").read_text())
        try:
            with psycopg.connect(self.conninfo(), connect_timeout=5) as connection:
                found = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return found == (str(self._data),)

    def stop(self) -> None:
        """Ends it at once, as a crash would: connections break off, and the next start recovers."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()

    def close(self) -> None:
        """Ends it and removes its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def conninfo(self, database: str = "postgres") -> str:
        """For psycopg."""
        return f"host=127.0.0.1 port={self.port} dbname={database} user={USER} password='{PASSWORD}'"

    def url(self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD) -> str:
        """For SQLAlchemy."""
        return f"postgresql://{user}:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """A new, empty database; gives its name."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return name


def programs_folder() -> Path | None:
    """Where the server's programs are: the newest that Debian's package has, or on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    program = found[-1] if found else shutil.which("initdb")
    return None if program is None else Path(program).resolve().parent


def started_postgres() -> Postgres:
    """A server of the caller's own. Skips the test where there is no PostgreSQL; fails it in CI."""
    programs = programs_folder()
    if programs is None:
        text = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(text)
        pytest.skip(text)
    return Postgres(programs)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's server."""
    server = started_postgres()
    yield server
    server.close()
