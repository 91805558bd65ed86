"""A real Apache Kafka, one node, for development and tests: the config half and the live half.

It owns the life of one broker: its data folder, its ports, the condition for a successful start, and the error of a
failed one. It must not know the command line or a home's record (`record`).
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import fcntl
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from headrace.core.errors import ExternalError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, private_opener, replace_file
from headrace.core.settings import Home
from headrace.processes.ports import free_port, is_free
from headrace_dev.broker.ivy import FetchProgress, ensure_jars, jars_folder
from headrace_dev.broker.java import Java, find_java
from headrace_dev.broker.process import BrokerProcess, marks, start_detached, start_leashed, umask_for
from headrace_dev.broker.properties import HOST, LOGGING, server_properties

_STARTS_MAX = 5
_FORMAT_SECONDS = 180.0
_LINGER_SECONDS = 1.0
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The configuration of a broker.

    `data` is created and formatted if it is new. `port` 0 means a free one, kept over restarts of the same
    `EmbeddedBroker`. `host`: its listening address; it has no passwords, so an address that no other host reaches.
    `log` defaults to `broker.log` in the data folder. `detached`: outlives this process. `short_lived`: starts faster
    (3 instead of 5 CPU-seconds), at the price of throughput once warm. `writes_classes`: a file for a class archive
    (`archive_path`), which the broker writes when it is stopped. `settings`: Kafka settings that replace the default
    ones; listeners are added.
    """

    data: Path
    port: int = 0
    host: str = HOST
    log: Path | None = None
    heap_mb: int = 512
    detached: bool = False
    short_lived: bool = False
    writes_classes: Path | None = None
    start_seconds: float = 180.0
    stop_seconds: float = 20.0
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def log_file(self) -> Path:
        """The file for the broker's output."""
        return self.log or self.data / "broker.log"


@dataclass(frozen=True, slots=True)
class _Runtime:
    """Java and jars of brokers. classes: options of the class archive."""

    program: str
    classpath: str
    classes: tuple[str, ...]


class EmbeddedBroker:
    """The live half: start, stop, kill and start again on the same port and data.

    A context manager. Unless detached, the broker ends with this process, even when that is killed.
    """

    def __init__(self, config: BrokerConfig, *, on_progress: Callable[[FetchProgress], None] | None = None) -> None:
        if "," in str(config.data):
            raise UserError(f"Kafka takes no data folder with a comma in its name: {config.data}")
        self._config = config
        self._data = config.data.absolute()
        self._log = config.log_file.absolute()
        self._on_progress = on_progress
        self._host, self._port = config.host, config.port
        self._process: BrokerProcess | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients. Known after the first start, or from the config."""
        assert self._port, "the port of a broker is known once it was started"
        return f"{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """The port clients connect to; 0 before a start chose one."""
        return self._port

    @property
    def pid(self) -> int | None:
        """The process id, None before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def data(self) -> Path:
        """The folder with topics, offsets and the cluster's identity."""
        return self._data

    @property
    def log(self) -> Path:
        """The file with the broker's output."""
        return self._log

    @property
    def is_running(self) -> bool:
        """Whether the process exists; it may have died since its start."""
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        """Starts the broker. Returns when it answers (2-3 s). Does nothing while it runs.

        Raises UserError if the port or the data folder is in use, ExternalError if Java, the jars or the broker itself
        fail; the error contains the end of the broker's log.
        """
        if self.is_running:
            return
        if self._port and not _comes_true(lambda: is_free(self._port, self._host)):
            raise UserError(
                f"port {self._port} on {self._host} is taken by another program",
                remedy="choose another port, or stop what listens there",
            )
        found = find_java()
        jars = ensure_jars(found, on_progress=self._on_progress)
        kept = self._config.writes_classes
        classes = reading_options(jars_folder(), found) if kept is None else writing_options(kept)
        java = _Runtime(str(found.program), os.pathsep.join(map(str, jars)), classes)
        _make_folders(self._data, self._log.parent)
        with _claimed(self._data) as claim:
            for attempt in range(1, _STARTS_MAX + 1):
                port = self._port or free_port(host=self._host)
                failure = self._start_once(java, port, claim)
                if failure is None:
                    self._port = port
                    atexit.register(self._at_exit)
                    return
                fixed = self._port and not is_free(port, self._host)
                if "already in use" not in failure or attempt == _STARTS_MAX or fixed:
                    raise self._explained(failure, port)

    def stop(self) -> None:
        """Stops it and waits; kills it after a time limit. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate(patience_seconds=self._config.stop_seconds)
        atexit.unregister(self._at_exit)

    def kill(self) -> None:
        """Kills it (SIGKILL), like a crash; `start` restarts it on the same port and data."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
        atexit.unregister(self._at_exit)

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _at_exit(self) -> None:
        if not self._config.detached:
            self.kill()

    def _start_once(self, java: _Runtime, port: int, claim: int) -> str | None:
        """Tries one pair of ports. Returns None if the broker answers, else the end of its log."""
        settings = self._data / "server.properties"
        logging = self._data / "log4j2.properties"
        text = server_properties(
            port=port,
            controller_port=free_port(other_than=port),
            data=self._data / "logs",
            host=self._host,
            settings=self._config.settings,
        )
        replace_file(settings, text.encode("ascii"), mode=PRIVATE_FILE)
        replace_file(logging, LOGGING.encode("ascii"), mode=PRIVATE_FILE)
        cluster = self._ensure_formatted(java, settings)
        command = [
            java.program,
            *marks(self._data),
            f"-Xmx{self._config.heap_mb}m",
            "-Xms64m",
            *(["-XX:TieredStopAtLevel=1"] if self._config.short_lived else []),
            *java.classes,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
            *("-cp", java.classpath, "kafka.Kafka", str(settings)),
        ]
        log_start = self._log.stat().st_size if self._log.exists() else 0
        launch = start_detached if self._config.detached else start_leashed
        process = launch(command, data=self._data, log=self._log, environment=_environment(), inherit=(claim,))
        self._process = process
        try:
            if self._wait_answering(process, port, cluster):
                return None
        except BaseException:
            self.kill()
            raise
        died = not process.is_alive()
        self.kill()
        reason = "" if died else f"it did not answer within {self._config.start_seconds:.0f} s\n"
        return reason + _tail(self._log, log_start)

    def _wait_answering(self, process: BrokerProcess, port: int, cluster: str) -> bool:
        """Waits until this broker, and not another one on that port, answers. Returns False if it died or took too
        long.
        """
        # imported here: librdkafka loads slower than all the rest, and `headrace cluster` only needs a port
        from headrace.local.topics.topics import cluster_id_of

        deadline = time.monotonic() + self._config.start_seconds
        while process.is_alive() and time.monotonic() < deadline:
            if is_free(port, self._host):
                time.sleep(0.03)
            elif cluster_id_of(f"{self._host}:{port}", seconds=2.0) == cluster:
                return True
            else:
                time.sleep(0.05)
        return False

    def _ensure_formatted(self, java: _Runtime, settings: Path) -> str:
        """Formats a new data folder, once. Returns its cluster id."""
        identity = self._data / "logs" / "meta.properties"
        cluster_id = _cluster_id(identity)
        if cluster_id is not None:
            return cluster_id
        # the first byte is a letter: an id that begins with a dash would be parsed as an option
        cluster = base64.urlsafe_b64encode(b"H" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        classes = java.classes if self._config.writes_classes is None else ()
        command = [
            *(java.program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *classes, "-cp", java.classpath),
            *("kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster, "-c", str(settings)),
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=_FORMAT_SECONDS,
                check=False,
                env=_environment(),
                umask=umask_for(self._data),
            )
        except subprocess.TimeoutExpired as error:
            raise ExternalError(f"Kafka did not format {self._data} within {_FORMAT_SECONDS:.0f} s") from error
        if done.returncode != 0:
            raise ExternalError(f"Kafka could not format {self._data}:\n{done.stdout}{done.stderr}".rstrip())
        return _cluster_id(identity) or cluster

    def _explained(self, failure: str, port: int) -> ExternalError | UserError:
        if "already in use" in failure:
            return UserError(f"port {port} on {self._host} is taken", remedy="choose another port")
        return ExternalError(f"the Kafka broker did not start:\n{failure}", remedy=f"its whole log: {self._log}")


@contextlib.contextmanager
def _claimed(data: Path) -> Iterator[int]:
    """Holds a lock on a data folder. The broker inherits it, and so holds it until it ends, however it ends.

    Kafka has a lock of its own, but acquires it only after the second broker has disturbed the first.
    """
    with open(data / "lock", "w", opener=private_opener) as handle:
        if not _comes_true(lambda: _locked(handle)):
            raise UserError(f"another broker uses the data folder {data}", remedy="stop it, or choose another folder")
        yield handle.fileno()


def _locked(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _comes_true(condition: Callable[[], bool]) -> bool:
    """Waits a moment for port and lock, which a killed broker still holds."""
    deadline = time.monotonic() + _LINGER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _environment() -> dict[str, str]:
    """Returns this process's environment, without another Kafka's class path, and with the home that it belongs to."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"CLASSPATH", "KAFKA_OPTS"}}
    return {**inherited, "HEADRACE_HOME": str(Home.from_environment().root)}


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        try:
            make_private_folder(folder)
        except OSError as error:
            raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from error
        if not os.access(folder, os.W_OK):
            raise UserError(f"the folder {folder} cannot be written to")


def _cluster_id(identity: Path) -> str | None:
    with contextlib.suppress(OSError):
        for line in identity.read_text().splitlines():
            if line.startswith("cluster.id="):
                return line.removeprefix("cluster.id=")
    return None


def _tail(log: Path, start: int, bytes_max: int = 64 * 1024) -> str:
    """Returns the errors and the last lines of the log since `start`, without stack frames."""
    with contextlib.suppress(OSError), log.open("rb") as source:
        source.seek(max(start, log.stat().st_size - bytes_max))
        text = source.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if not line.startswith("\tat ")]
        causes = [line for line in lines[:-_TAIL_LINES] if " ERROR " in line or line.startswith("Caused by")]
        return "\n".join(f"  {line}" for line in [*causes[:5], *lines[-_TAIL_LINES:]])
    return "  (it wrote no log)"


_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_path(folder: Path, java: Java) -> Path:
    """Returns the path of the archive of the broker's classes (class data sharing) for `folder` and this Java.

    With it a broker starts with half the CPU time. It belongs to the jars and to one Java; the JVM ignores it if
    anything differs. A caller that starts many brokers, such as tests, has it written once; without one a broker starts
    as usual.

    Source: JEP 310 and JEP 350, application class-data sharing and its dynamic archives.
    """
    text = "".join(char if char.isalnum() else "-" for char in java.version)
    return folder / f"classes-{text}.jsa"


def reading_options(folder: Path, java: Java) -> tuple[str, ...]:
    """Returns the options of a JVM that loads its classes from the archive, if there is one."""
    path = archive_path(folder, java)
    return (f"-XX:SharedArchiveFile={path}", *_QUIET) if path.exists() else ()


def writing_options(path: Path) -> tuple[str, ...]:
    """Returns the options of a JVM that writes its loaded classes to `path` at a normal exit."""
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)
