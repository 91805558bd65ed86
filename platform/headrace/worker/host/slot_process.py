"""One slot process as its supervisor sees it: starting it, its words, its end and why."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.core.files.private_files import make_private_folder
from headrace.core.settings import Home
from headrace.processes.child import Child
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import Starter
from headrace.rpc import codec
from headrace.rpc.messages import CancelSlot, ClusterTimes, Deploy, FinishSlot, FromSlot, SlotInfo, ToSlot
from headrace.rpc.v1 import slot_pipe_pb2
from headrace.tls.files import TlsFiles
from headrace.worker.host.slot_log import SlotLog
from headrace.worker.host.slot_pipe import PipeFull, SlotPipe
from headrace.worker.slot.process import FAILED, LEASE_EXPIRED, OVERRUN, SUPERVISOR_GONE, SlotOptions

PROGRAM, ROLE = "headrace.worker.slot.process", "headrace-slot"
STDOUT = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_READER_SECONDS = 2.0
_EXITS = {
    FAILED: "its attempt failed",
    LEASE_EXPIRED: "exited: no beat of its supervisor within the lease",
    SUPERVISOR_GONE: "exited: the pipe to its supervisor was closed",
    OVERRUN: "exited: it did not keep up with its commands",
}

_Pipe = SlotPipe[slot_pipe_pb2.SupervisorFrame, slot_pipe_pb2.SlotFrame]


class SlotState(Enum):
    """Where a slot process is in its life."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class SlotPlaces:
    """Where a slot's things lie: its Unix socket, its log, and a folder for its temporary files, removed after it."""

    sockets: Path
    logs: Path
    scratch: Path


@dataclass(frozen=True, slots=True)
class SlotSetup:
    """What slots are started with and by.

    tls           between slots of different hosts; None: not encrypted
    shows_output  their stdout is this process's; else it goes to their logs
    """

    host: str
    places: SlotPlaces
    times: ClusterTimes
    starter: Starter
    tls: TlsFiles | None = None
    shows_output: bool = False


@dataclass(frozen=True, slots=True)
class SlotHandlers:
    """What a slot process tells its supervisor, in the thread that reads its pipe.

    on_up      it is idle and listens
    on_said    its own words
    on_closed  its pipe is closed; its end is near
    """

    on_up: Callable[[SlotProcess], None]
    on_said: Callable[[SlotProcess, FromSlot], None]
    on_closed: Callable[[SlotProcess], None]


class SlotProcess:
    """A slot process. To be made by the thread that lives as long as the supervisor: Linux ends a fresh interpreter
    with that thread.

    info        what it said of itself; None: it has not yet
    state       starting, idle or, once it was deployed to, busy for good
    heard_s     when it last said anything, a beat included (monotonic)
    started_s   when it was started (monotonic)
    leave_by_s  by when it must have left, once it was told to (monotonic)
    """

    def __init__(self, name: str, setup: SlotSetup, handlers: SlotHandlers) -> None:
        places, times = setup.places, setup.times
        self.name = name
        self.info: SlotInfo | None = None
        self.state = SlotState.STARTING
        self.started_s = self.heard_s = time.monotonic()
        self.leave_by_s: float | None = None
        self._cancel_s = times.cancel / 1_000
        self._handlers = handlers
        self._kill_reason: str | None = None
        self._scratch = places.scratch / name
        make_private_folder(self._scratch)
        self.log = SlotLog(places.logs, name)
        home = Home.from_environment().root
        ours, theirs = socket.socketpair()
        options = SlotOptions(
            fd=theirs.fileno(),
            slot=name,
            host=setup.host,
            folder=places.sockets,
            parent=os.getpid(),
            heartbeat=times.heartbeat,
            lease=times.lease,
            cancel=times.cancel,
            lost=times.worker_lost,
            home=home,
            tls=setup.tls,
        )
        with theirs:
            try:
                self._process = self._start(options, setup)
            except BaseException:
                # nobody else knows of this slot yet
                ours.close()
                self.log.close()
                shutil.rmtree(self._scratch, ignore_errors=True)
                raise
        self._pipe: _Pipe = SlotPipe(ours, slot_pipe_pb2.SlotFrame.FromString, _beat, times.heartbeat / 1_000)
        self._reader = threading.Thread(target=self._read, name=f"slot {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def tell(self, command: ToSlot) -> None:
        """Passes on a command, never blocks; a slot that takes none any more is killed."""
        match command:
            case Deploy():
                self.state = SlotState.BUSY
            case CancelSlot() | FinishSlot() if self.leave_by_s is None:
                self.leave_by_s = time.monotonic() + self._cancel_s
            case _:
                pass
        try:
            self._pipe.send_nowait(slot_pipe_pb2.SupervisorFrame(told=codec.to_slot_proto(command)))
        except PipeFull:
            self.kill("killed: it takes no commands")

    def leave(self) -> None:
        """Tells it to exit at once, by closing its pipe."""
        self._pipe.close()

    def kill(self, reason: str) -> None:
        """Ends it now. The first reason stands."""
        if not self.has_ended():
            self._kill_reason = self._kill_reason or reason
            self._process.kill()

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def wait(self, timeout_s: float) -> bool:
        """Waits for its end. Gives whether it has ended."""
        return self._process.wait(timeout_s) is not None

    def end(self) -> tuple[str, bool]:
        """After its end: takes in its last words and removes its things. Gives reason, and whether it left cleanly."""
        self._reader.join(_READER_SECONDS)
        self._pipe.close()
        seen = f"; see {self.log.path}" if self.log.has_text else ""
        self.log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        code = self._process.poll()
        assert code is not None, "the process has ended"
        if self._kill_reason is not None:
            return self._kill_reason, False
        if code == 0:
            return "left", True
        if code < 0:
            return _killed_by(-code), False
        return _EXITS.get(code, f"exited with code {code}") + seen, False

    def memory_bytes(self) -> int:
        """Resident memory; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def _start(self, options: SlotOptions, setup: SlotSetup) -> Child:
        environment = os.environ | {
            "HEADRACE_HOME": str(options.home),
            "POLARS_MAX_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "TMPDIR": str(self._scratch),
        }
        order = ProcessOrder(
            program=PROGRAM,
            arguments=(ROLE, *options.arguments()),
            environment=environment,
            stdout=STDOUT if setup.shows_output else self.log.fd,
            stderr=self.log.fd,
            keep=(options.fd,),
        )
        return setup.starter.start(order)

    def _read(self) -> None:
        while (frame := self._pipe.receive()) is not None:
            self.heard_s = time.monotonic()
            match frame.WhichOneof("kind"):
                case "hello":
                    self.info = codec.slot_info(frame.hello)
                    self.state = SlotState.IDLE
                    self._handlers.on_up(self)
                case "said":
                    self._handlers.on_said(self, codec.from_slot(frame.said))
                case _:
                    pass
        self._handlers.on_closed(self)


def _killed_by(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    hint = "; the system kills so when memory runs out" if number == signal.SIGKILL else ""
    return f"killed by signal {number} ({name}{hint})"


def _beat(sent_ns: int) -> slot_pipe_pb2.SupervisorFrame:
    return slot_pipe_pb2.SupervisorFrame(beat=slot_pipe_pb2.Beat(sent_ns=sent_ns))
