"""One slot process as its supervisor sees it: its start, its messages, its end and the reason for it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from headrace.core.files.home_files import make_private_folder
from headrace.core.files.running_calls import calls_of
from headrace.core.settings import SLOTS_VARIABLE, Home
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import Starter
from headrace.processes.supervised import Ending, SupervisedChild, exited_with
from headrace.rpc import codec
from headrace.rpc.messages import SlotCommand, SlotInfo, SlotMessage
from headrace.rpc.time_settings import ClusterTimes
from headrace.tls.files import TlsFiles
from headrace.worker.lease import LEASE_EXPIRED
from headrace.worker.slot.main import FAILED, OVERRUN, SUPERVISOR_GONE, SlotOptions
from headrace.worker.slot.slot_pipe import PipeFullError, SlotPipe
from headrace.worker.supervision.slot_log import SlotLog

PROGRAM, ROLE = "headrace.worker.slot.main", "headrace-slot"
STDOUT = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_READER_SECONDS = 2.0
_EXITS = {
    FAILED: "its attempt failed",
    LEASE_EXPIRED: "exited: no beat of its supervisor within the lease",
    SUPERVISOR_GONE: "exited: the pipe to its supervisor was closed",
    OVERRUN: "exited: it did not keep up with its commands",
}


class SlotState(Enum):
    """The state of a slot process. BUSY is final: a slot runs one attempt."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class SlotFolders:
    """Folders for a slot's Unix socket, for its log, and for its temporary files (removed after its end)."""

    sockets: Path
    logs: Path
    scratch: Path


@dataclass(frozen=True, slots=True)
class SlotSetup:
    """The settings that all slots of a worker start with.

    host          address at which slots listen for rows of other hosts
    tls           files for connections between slots of different hosts; None: not encrypted
    shows_output  slots share this process's stdout; otherwise their output goes to their logs
    slots         how many slots share this host's memory
    """

    host: str
    folders: SlotFolders
    times: ClusterTimes
    starter: Starter
    tls: TlsFiles | None = None
    shows_output: bool = False
    slots: int = 1


@dataclass(frozen=True, slots=True)
class SlotHandlers:
    """Called in the thread that reads a slot's pipe.

    on_up      the slot is idle and listens
    send       sends the coordinator a message of the slot
    on_closed  the pipe is closed: the process has ended or is about to
    """

    on_up: Callable[[SlotProcess], None]
    send: Callable[[SlotMessage], None]
    on_closed: Callable[[SlotProcess], None]


class SlotProcess(SupervisedChild):
    """A slot process. To be constructed in the thread that lives as long as the supervisor, because Linux kills a fresh
    interpreter when the thread that started it ends (`PR_SET_PDEATHSIG`).

    info        its SlotInfo; None until the slot has sent it
    state       starting, idle or, from its deployment on, busy
    received_s  time of its last frame, heartbeats included (s, monotonic)
    started_s   time of its start (s, monotonic)
    leave_by_s  deadline for its exit once it was asked to leave (s, monotonic); None: it was not
    """

    def __init__(self, name: str, setup: SlotSetup, handlers: SlotHandlers) -> None:
        folders, times = setup.folders, setup.times
        self.name = name
        self.info: SlotInfo | None = None
        self.state = SlotState.STARTING
        self.started_s = self.received_s = time.monotonic()
        self.leave_by_s: float | None = None
        self._cancel_s = times.cancel / 1_000
        self._handlers = handlers
        self._scratch = folders.scratch / name
        make_private_folder(self._scratch)
        self.log = SlotLog(folders.logs, name)
        try:
            super().__init__(setup.starter, partial(self._order, setup))
        except BaseException:
            # the supervisor has not registered this slot yet, so nothing else removes its log and folder
            self._remove_things()
            raise
        self._pipe = SlotPipe(self.connection, times.heartbeat / 1_000)
        self._reader = threading.Thread(target=self._read, name=f"slot {name}", daemon=True)
        self._reader.start()

    def send(self, command: SlotCommand) -> None:
        """Sends a command, never blocks. Kills the slot if its pipe is full, because it does not read commands."""
        if command.deploys:
            self.state = SlotState.BUSY
        if command.leaves and self.leave_by_s is None:
            self.leave_by_s = time.monotonic() + self._cancel_s
        try:
            self._pipe.send_nowait(command.payload)
        except PipeFullError:
            self.kill("killed: it takes no commands")

    def leave(self) -> None:
        """Makes the slot exit at once, by closing its pipe."""
        self._pipe.close()

    def end(self) -> Ending:
        """Cleans up after the process has ended; returns how it ended."""
        # the last messages may still be in the pipe: they are passed on before the end is reported
        self._reader.join(_READER_SECONDS)
        self._pipe.close()
        seen = f"; see {self.log.path}" if self.log.has_text else ""
        calls = calls_of(self._scratch)
        doing = f" while it ran {' and '.join(calls)}" if calls else ""
        self._remove_things()

        def explained(code: int) -> Ending:
            # an attempt that fails says so before; a function may exit with the same code
            if code in _EXITS and not (calls and code == FAILED):
                return Ending(_EXITS[code] + seen)
            ending = exited_with(code, doing)
            return replace(ending, reason=ending.reason + seen)

        return self.ending(explained, doing)

    def memory_bytes(self) -> int:
        """Resident memory; 0 where the system has no /proc or the process has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def _order(self, setup: SlotSetup, fd: int) -> ProcessOrder:
        times = setup.times
        options = SlotOptions(
            fd=fd,
            slot=self.name,
            host=setup.host,
            folder=setup.folders.sockets,
            parent=os.getpid(),
            heartbeat=times.heartbeat,
            lease=times.lease,
            cancel=times.cancel,
            lost=times.worker_lost,
            home=Home.from_environment().root,
            tls=setup.tls,
        )
        environment = os.environ | {
            "HEADRACE_HOME": str(options.home),
            "POLARS_MAX_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self._scratch),
            SLOTS_VARIABLE: str(setup.slots),
        }
        return ProcessOrder(
            program=PROGRAM,
            arguments=(ROLE, *options.arguments()),
            environment=environment,
            stdout=STDOUT if setup.shows_output else self.log.fd,
            stderr=self.log.fd,
            keep=(fd,),
        )

    def _remove_things(self) -> None:
        self.log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _read(self) -> None:
        while (frame := self._pipe.receive()) is not None:
            self.received_s = time.monotonic()
            if not frame.message:
                continue
            if self.info is None:
                self.info = codec.slot_info(frame.message)
                self.state = SlotState.IDLE
                self._handlers.on_up(self)
            else:
                self._handlers.send(SlotMessage(self.name, frame.message))
        self._handlers.on_closed(self)
