"""The development broker of a home: its record, and the commands up, down, status.

A home has one broker. `broker.json` in the home's folder has its process, port, data and log; it is only trusted while
that very process runs. Changes are made under a lock between processes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, private_opener, replace_file
from headrace.core.settings import Home
from headrace.local.topics.topics import cluster_id_of
from headrace_dev.broker.broker import BrokerConfig, EmbeddedBroker
from headrace_dev.broker.ivy import FetchProgress
from headrace_dev.broker.process import BrokerProcess
from headrace_dev.broker.properties import HOST

DEFAULT_PORT = 9092

_ANSWER_SECONDS = 3.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A home's record of its broker."""

    pid: int
    port: int
    data: Path
    log: Path

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> BrokerProcess:
        """The process, which is only alive if it is still the broker."""
        return BrokerProcess(self.pid, self.data)


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """`running`: the process exists. `answering`: it also answers clients."""

    running: bool
    answering: bool
    record: BrokerRecord | None


def bring_up(
    home: Home,
    *,
    port: int | None = None,
    data: Path | None = None,
    log: Path | None = None,
    on_progress: Callable[[FetchProgress], None] | None = None,
) -> tuple[BrokerRecord, bool]:
    """Returns the home's broker, started if it does not run; and True if this call started it.

    It outlives this process. None uses the default: port 9092, data and log in the home. Raises UserError if it runs
    with another port or data folder.
    """
    with _lock(home):
        last = read_record(home)
        if last is not None and _lives_on(last):
            _require_same(last, port, data)
            return last, False
        config = BrokerConfig(
            data=(data or home.broker / "data").absolute(),
            port=DEFAULT_PORT if port is None else port,
            log=(log or home.broker / "broker.log").absolute(),
            detached=True,
        )
        broker = EmbeddedBroker(config, on_progress=on_progress)
        broker.start()
        assert broker.pid is not None
        record = BrokerRecord(pid=broker.pid, port=broker.port, data=broker.data, log=broker.log)
        _write_record(home, record)
        return record, True


def bring_down(home: Home) -> BrokerRecord | None:
    """Stops the home's broker and returns its record; None if none ran. Its data stays."""
    with _lock(home):
        record = read_record(home)
        if record is None:
            return None
        process = record.process
        ran = process.is_alive()
        process.terminate(patience_seconds=_STOP_SECONDS)
        _record_file(home).unlink(missing_ok=True)
        return record if ran else None


def status(home: Home) -> BrokerStatus:
    """Returns whether the home's broker runs and answers."""
    record = read_record(home)
    if record is None or not record.process.is_alive():
        return BrokerStatus(running=False, answering=False, record=record)
    answering = cluster_id_of(record.bootstrap, seconds=_ANSWER_SECONDS) is not None
    return BrokerStatus(running=True, answering=answering, record=record)


def read_record(home: Home) -> BrokerRecord | None:
    """Returns the record; None if there is none, or it is unreadable."""
    try:
        fields = json.loads(_record_file(home).read_text())
        return BrokerRecord(
            pid=int(fields["pid"]), port=int(fields["port"]), data=Path(fields["data"]), log=Path(fields["log"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_record(home: Home, record: BrokerRecord) -> None:
    replace_file(_record_file(home), f"{json.dumps(asdict(record), default=str)}\n".encode(), mode=PRIVATE_FILE)


def _require_same(record: BrokerRecord, port: int | None, data: Path | None) -> None:
    remedy = "stop it first: headrace kafka down; or give the other one its own HEADRACE_HOME"
    if port not in {None, 0, record.port}:
        raise UserError(f"the broker already runs at {record.bootstrap}, not on port {port}", remedy=remedy)
    if data is not None and data.absolute() != record.data:
        raise UserError(f"the broker already runs at {record.bootstrap} with its data in {record.data}", remedy=remedy)


def _lives_on(record: BrokerRecord) -> bool:
    """Whether the broker runs and is not dying: a killed process exists for a moment longer."""
    if not record.process.is_alive():
        return False
    return cluster_id_of(record.bootstrap, seconds=_ANSWER_SECONDS) is not None or record.process.is_alive()


def _record_file(home: Home) -> Path:
    return home.broker / "broker.json"


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    try:
        make_private_folder(home.broker)
        handle = os.fdopen(private_opener(str(home.broker / "lock"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w")
    except OSError as error:
        raise UserError(
            f"the folder {home.broker} cannot be written: {error.strerror}",
            remedy="point HEADRACE_HOME to a folder of your own",
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
