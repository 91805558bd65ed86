"""A worker: keeps slot processes running and passes messages between them and the coordinator.

    coordinator <── gRPC stream ──> ControlClient ┐                ┌ SlotProcess <── pipe ──> slot
                                                  ├── Supervisor ──┤
                                                  ┘                └ SlotProcess <── pipe ──> slot

A slot's messages go from the thread that reads its pipe to the client, undecoded. One thread starts, kills and
replaces slot processes: it checks all slots several times a second. A slot runs one attempt and exits; its replacement
starts at once, so that the next attempt finds a slot with all modules loaded.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from headrace import __version__
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UnreachableError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, replace_file
from headrace.core.retry import Backoff
from headrace.core.text.plural import plural
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.rpc import messages
from headrace.rpc.client import ClientHandlers, ControlClient, CoordinatorAccess
from headrace.rpc.time_settings import ClusterTimes
from headrace.tls.files import TlsFiles
from headrace.worker.supervision.diagnostics import LoadMeter, RecentLines, all_logs, all_stacks
from headrace.worker.supervision.slot_log import prune_logs
from headrace.worker.supervision.slot_process import SlotHandlers, SlotProcess, SlotSetup, SlotState
from headrace.worker.supervision.worker_folder import WorkerFolder

WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
WORKER_SECRET = re.compile(r"[a-z][a-z0-9.-]{0,49}\Z")
"""Names of secrets, which are names of files in one folder."""
STARTING_SECONDS_MAX = 120.0
"""A slot that has not sent its SlotInfo after this time is killed. Imports take seconds, even on a busy host."""
LEAVE_SECONDS = 2.0
"""At the end of the worker slots have this long to exit before they are killed."""
FLUSH_SECONDS = 10.0
"""At its end the worker waits at most this long until a connected coordinator has acknowledged all messages."""
MEASURE_SECONDS = 1.0
CHECK_SECONDS_MAX = 0.2
LOAD_SECONDS = 2.0
"""Between two reports of what the worker uses."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The settings of a worker.

    worker              its id: of [A-Za-z0-9._-], unique in the cluster
    coordinator         HOST:PORT of the coordinator's control plane
    slots               number of slot processes
    host                address at which its slots listen, which the other hosts must reach
    folder              used by this worker only
    token               the cluster's shared secret
    memory_limit_bytes  a slot with more resident memory is killed; None: no limit
    reconnect_for_ms    the worker ends after this long without a coordinator; None: never
    drain_ms            at SIGTERM jobs get at most this long to move to other workers; 0: the worker ends at once
    shows_output        slots share this process's stdout; otherwise their output goes to their logs
    logs                folder for logs of slots; None: `<folder>/logs`
    starter             starts slots; the caller closes it
    tls                 files for connections to the coordinator and between slots; None: neither is encrypted
    secrets             folder of the secrets that the coordinator may replace; None: it may replace none
    """

    worker: str
    coordinator: str
    slots: int
    host: str
    folder: Path
    token: str = field(repr=False)
    times: ClusterTimes = field(default_factory=ClusterTimes)
    memory_limit_bytes: int | None = None
    reconnect_for_ms: int | None = None
    drain_ms: int = 0
    shows_output: bool = False
    logs: Path | None = None
    starter: Starter = field(default_factory=SpawnStarter, repr=False)
    tls: TlsFiles | None = None
    secrets: Path | None = None


class Supervisor:
    """One worker. A process that is a worker calls `run`; one that contains a worker calls `start` and `stop`."""

    def __init__(self, config: WorkerConfig) -> None:
        if not WORKER_ID.match(config.worker):
            raise UserError(f"{config.worker!r} is no worker id: letters, digits, '.', '_' and '-'")
        self._config = config
        self._lock = threading.Lock()
        self._dumping = threading.Lock()
        self._slots: dict[str, SlotProcess] = {}
        self._wake = threading.Event()
        self._ending: str | None = None
        self._failure: HeadraceError | None = None
        self._folder: WorkerFolder | None = None
        self._ended = threading.Event()
        self._backoff = StartBackoff()
        self._missed = False
        self._drained_by_s: float | None = None
        self._measured_s = self._checked_s = self._load_due_s = time.monotonic()
        self._load = LoadMeter(self._measured_s)
        self._lines = RecentLines()
        handlers = ClientHandlers(self._registration, self._on_message, self._on_refused)
        access = CoordinatorAccess(config.coordinator, config.token, config.tls)
        self._client = ControlClient(access, config.times, handlers)
        self._thread = threading.Thread(target=self._run, name="headrace-supervisor", daemon=True)

    def run(self) -> None:
        """Runs until SIGTERM, SIGINT or the coordinator's StopWorker. Call it in the main thread. A first SIGTERM
        drains the worker before, if it is configured so.

        Raises UserError if the coordinator refuses the worker, UnreachableError if no coordinator answered for
        `reconnect_for_ms`.
        """
        asked: list[int] = []
        before = {
            number: signal.signal(number, lambda number, _frame: asked.append(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self.start()
            # `stop` is called here, not in the handler: a handler runs inside of whatever the main thread executes, and
            # would wait forever for a lock that this code holds
            while not self.wait(CHECK_SECONDS_MAX):
                if asked == [signal.SIGTERM] and self._config.drain_ms:
                    self.drain()
                elif asked:
                    self.stop()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Starts the worker's threads and slots; sets no signal handlers.

        Raises UserError if another worker uses the folder.
        """
        self._folder = WorkerFolder(self._config.folder, self._config.logs)
        self._lines.start()
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the worker has ended, at most `timeout_s` seconds; returns whether it has. Raises as `run`."""
        if not self._ended.wait(timeout_s):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        """Sends WorkerLeaving, ends all slots, and returns once every process and thread has ended. Idempotent."""
        self._end("it was told to end")
        if self._thread.is_alive():
            self._thread.join()

    def kill_slots(self, reason: str) -> None:
        """Kills all slots. Called by any thread."""
        with self._lock:
            slots = list(self._slots.values())
        for slot in slots:
            slot.kill(reason)

    def drain(self) -> None:
        """Sends WorkerDraining, and ends the worker once no attempt runs in its slots, or after `drain_ms`. Idempotent;
        returns at once."""
        if self._drained_by_s is None:
            _log.info("worker %s is to end: it waits for its jobs to move", self._config.worker)
            self._drained_by_s = time.monotonic() + self._config.drain_ms / 1_000
            self._client.send(messages.WorkerDraining())
            self._wake.set()

    # ---- messages, in the threads that receive them ------------------------------------------------------------------

    def _registration(self) -> messages.Register:
        with self._lock:
            idle = self._infos(SlotState.IDLE)
            busy = self._infos(SlotState.BUSY)
        config = self._config
        draining = self._drained_by_s is not None
        return messages.Register(
            config.worker, config.host, os.getpid(), config.slots, __version__, idle, busy, draining
        )

    def _infos(self, state: SlotState) -> tuple[messages.SlotInfo, ...]:
        # While this process was stopped, slots may have died whose end the supervisor thread has not handled yet: they
        # must not be offered for a deployment.
        slots = [slot for slot in self._slots.values() if slot.state is state and not slot.has_ended()]
        return tuple(slot.info for slot in slots if slot.info is not None)

    def _on_message(self, message: messages.ToWorker) -> None:
        match message:
            case messages.SlotCommand(name):
                with self._lock:
                    slot = self._slots.get(name)
                    if slot is not None:
                        slot.send(message)
            case messages.KillSlot(name):
                with self._lock:
                    slot = self._slots.get(name)
                if slot is not None:
                    slot.kill("killed on the coordinator's word")
                    self._wake.set()
            case messages.StopWorker():
                self._end("the coordinator said so")
            case messages.ReplaceSecret(name, content):
                self._replace_secret(name, content)
            case messages.DumpStacks(request):
                # it takes a moment, in which this thread must go on to read
                threading.Thread(target=self._dump_stacks, args=(request,), name="stacks", daemon=True).start()
            case messages.ReadLogs(request):
                threading.Thread(target=self._read_logs, args=(request,), name="logs", daemon=True).start()
            case messages.Registered() | messages.Refused() | messages.Heartbeat():
                pass
            case _:
                assert_never(message)

    def _replace_secret(self, name: str, content: bytes) -> None:
        folder = self._config.secrets
        if folder is None or not WORKER_SECRET.match(name):
            return
        try:
            replace_file(folder / name, content, mode=PRIVATE_FILE)
            _log.info("the coordinator has replaced the secret %s", name)
        except OSError as error:
            # the one before may last for a while, and the coordinator sends the next one
            _log.warning("the secret %s cannot be replaced: %s", name, error)

    def _dump_stacks(self, request: str) -> None:
        if not self._dumping.acquire(blocking=False):
            self._client.send(messages.Stacks(request, "another dump is under way\n"))
            return
        try:
            with self._lock:
                slots = list(self._slots.values())
            self._client.send(messages.Stacks(request, all_stacks(slots)))
        finally:
            self._dumping.release()

    def _read_logs(self, request: str) -> None:
        with self._lock:
            slots = list(self._slots.values())
        self._client.send(messages.Logs(request, all_logs(self._lines, slots)))

    def _on_refused(self, refused: messages.Refused) -> None:
        reason = f"the coordinator at {self._config.coordinator} refuses this worker: {refused.reason}"
        self._end("", UserError(reason, remedy=refused.remedy))

    def _on_up(self, slot: SlotProcess) -> None:
        with self._lock:
            # The slot's first message may arrive before `_start_slot` has added it to the table. The lock is held there
            # until it has, so a registration that follows this SlotUp contains the slot (ClientHandlers.register).
            info = slot.info
        if info is not None:
            _log.info("slot %s is up (pid %d)", slot.name, slot.pid)
            self._client.send(messages.SlotUp(info))

    def _on_closed(self, _slot: SlotProcess) -> None:
        self._wake.set()

    def _end(self, reason: str, failure: HeadraceError | None = None) -> None:
        if self._ending is None:
            self._failure = failure
            self._ending = reason
            self._wake.set()

    # ---- slot processes, in the supervisor's thread ------------------------------------------------------------------

    def _run(self) -> None:
        config = self._config
        _log.info("worker %s: %d slots, coordinator %s", config.worker, config.slots, config.coordinator)
        try:
            self._client.start()
            while self._ending is None:
                self._check_slots()
                self._wake.wait(min(CHECK_SECONDS_MAX, config.times.heartbeat / 4 / 1_000))
                self._wake.clear()
        except HeadraceError as error:
            self._end("", error)
        except Exception as error:  # the shell of the worker: after any error its slots end, and `wait` raises it
            failure = InternalError(f"worker {config.worker}: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._end("", failure)
        finally:
            try:
                self._leave()
            except Exception as error:  # `_ended` must be set, or callers of `wait` would wait forever
                _log.exception("worker %s did not end in order", config.worker)
                self._failure = self._failure or InternalError(f"worker {config.worker}: {error}")
            finally:
                self._lines.stop()
                self._ended.set()

    def _check_slots(self) -> None:
        now_s = time.monotonic()
        # After this process was stopped (SIGSTOP, a suspended host) its slots look silent, though their beats are in
        # the pipes: the readers get one interval to read them before slots are judged.
        stood_still = now_s - self._checked_s > self._config.times.lease / 2 / 1_000
        self._checked_s = now_s
        for slot in list(self._slots.values()):
            if slot.has_ended():
                self._remove(slot, now_s)
            elif not stood_still:
                self._judge(slot, now_s)
        self._check_coordinator(now_s)
        self._measure(now_s)
        if self._drained_by_s is None:
            self._fill(now_s)
        else:
            self._check_drained(now_s, self._drained_by_s)

    def _check_drained(self, now_s: float, drained_by_s: float) -> None:
        """Ends the worker when its jobs have moved, or their time has passed."""
        busy = sum(slot.state is SlotState.BUSY for slot in self._slots.values())
        if not busy:
            self._end("it is drained")
        elif now_s >= drained_by_s:
            self._end(f"{plural(busy, 'busy slot')} not drained in {self._config.drain_ms / 1_000:g} s")

    def _fill(self, now_s: float) -> None:
        """Starts missing slots as soon as the starter can do so without blocking this thread."""
        starter = self._config.starter
        try:
            # called even if no slot is missing: `ready` reaps orphans and keeps a template ready
            while self._backoff.may_start(now_s) and starter.ready() and len(self._slots) < self._config.slots:
                self._start_slot()
        except (ExternalError, UserError) as error:
            _log.error("no slot can be started: %s", error)
            self._backoff.ended(now_s, 0.0, healthy=False)

    def _start_slot(self) -> None:
        assert self._folder is not None, "slots start after the folder is held"
        # The random part names the process: a coordinator that knew the slots of an earlier process of this worker must
        # not take the new ones for them.
        name = f"{self._config.worker}-{secrets.token_hex(4)}"
        config = self._config
        folders, starter = self._folder.folders, config.starter
        setup = SlotSetup(
            config.host,
            folders,
            config.times,
            starter,
            tls=config.tls,
            shows_output=config.shows_output,
            slots=config.slots,
        )
        handlers = SlotHandlers(self._on_up, self._client.send, self._on_closed)
        with self._lock:
            self._slots[name] = SlotProcess(name, setup, handlers)

    def _remove(self, slot: SlotProcess, now_s: float) -> None:
        ending = slot.end()
        reason, clean = ending.reason, ending.clean
        with self._lock:
            del self._slots[slot.name]
        if not clean:
            _log.warning("slot %s: %s", slot.name, reason)
        if slot.info is not None:
            self._client.send(messages.SlotDown(slot.name, reason, clean, ending.domain.value))
        self._backoff.ended(now_s, now_s - slot.started_s, healthy=clean or slot.state is SlotState.BUSY)
        assert self._folder is not None, "slots start after the folder is held"
        prune_logs(self._folder.folders.logs, {each.log.path for each in self._slots.values()})

    def _judge(self, slot: SlotProcess, now_s: float) -> None:
        """Kills a slot that missed its deadline to leave or to start, or that sends no heartbeats."""
        times = self._config.times
        if slot.leave_by_s is not None and now_s > slot.leave_by_s:
            slot.kill(f"killed: it had not left {times.cancel / 1_000:g} s after it was told to")
        elif slot.state is SlotState.STARTING and now_s - slot.started_s > STARTING_SECONDS_MAX:
            slot.kill(f"killed: it was not up after {STARTING_SECONDS_MAX:g} s")
        elif now_s - slot.received_s > (times.lease + times.heartbeat) / 1_000 and slot.state is not SlotState.STARTING:
            slot.kill(f"killed: no beat of it for {times.lease / 1_000:g} s")

    def _check_coordinator(self, now_s: float) -> None:
        """Kills busy slots once the coordinator was silent for the lease: it may have restarted their jobs elsewhere.

        Raises UnreachableError after `reconnect_for_ms` without a coordinator.
        """
        config = self._config
        silent_s = self._client.silent_s()
        missed = silent_s > 2.5 * config.times.heartbeat / 1_000
        if missed != self._missed:
            self._missed = missed
            state = f"does not answer ({self._client.trouble})" if missed else "answers again"
            _log.warning("coordinator %s %s", config.coordinator, state)
        if silent_s > config.times.lease / 1_000:
            for slot in self._slots.values():
                if slot.state is SlotState.BUSY:
                    slot.kill(f"killed: no word of the coordinator for {config.times.lease / 1_000:g} s")
        if config.reconnect_for_ms is not None and silent_s > config.reconnect_for_ms / 1_000:
            trouble = self._client.trouble
            raise UnreachableError(f"no coordinator answered at {config.coordinator} for {silent_s:.0f} s: {trouble}")

    def _measure(self, now_s: float) -> None:
        """Enforces the memory limit of slots and the size of their logs, once a second; reports the worker's load."""
        if now_s - self._measured_s < MEASURE_SECONDS:
            return
        self._measured_s = now_s
        if now_s >= self._load_due_s and not self._missed:
            # without a coordinator that answers they would fill the outbox
            self._load_due_s = now_s + LOAD_SECONDS
            pids = (os.getpid(), *(slot.pid for slot in self._slots.values()))
            self._client.send(self._load.measure(pids, now_s))
        limit = self._config.memory_limit_bytes
        for slot in self._slots.values():
            with suppress(OSError):
                slot.log.bound()
            # A starting slot is spared: if the limit is below what every slot needs, slots must get as far as to be
            # known to the coordinator, because the end of others is not reported (`_remove`).
            up = slot.state is not SlotState.STARTING
            if up and limit is not None and (used := slot.memory_bytes()) > limit:
                slot.kill(f"killed: it used {used >> 20} MiB of memory, more than its limit of {limit >> 20} MiB")

    def _leave(self) -> None:
        """Ends slots, connection and folder of the worker. A step that fails does not keep the others from running."""
        assert self._folder is not None, "the folder is held until the end"
        _log.info("worker %s ends%s", self._config.worker, f": {self._ending}" if self._ending else "")
        deadline_s = time.monotonic() + LEAVE_SECONDS
        with ExitStack() as at_last:
            at_last.callback(self._folder.release)
            at_last.callback(self._client.close, FLUSH_SECONDS)
            for slot in self._slots.values():
                at_last.callback(_end_slot, slot, deadline_s)
            self._client.send(messages.WorkerLeaving())
            for slot in self._slots.values():
                slot.leave()


def _end_slot(slot: SlotProcess, deadline_s: float) -> None:
    """Waits for a slot that was asked to leave; kills it after the deadline."""
    if not slot.wait(max(deadline_s - time.monotonic(), 0)):
        slot.kill("killed at the end of its worker")
        slot.wait(LEAVE_SECONDS)
    slot.end()


# ---- when a slot is replaced -----------------------------------------------------------------------------------------

BACKOFF = Backoff(first_s=0.2, max_s=10.0)
SOON_SECONDS = 10.0
"""The death of a slot that lived longer than this is not a failed start."""


class StartBackoff:
    """The time from which the next slot may start. Times in seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._wait_s = 0.0
        self._from_s = 0.0

    def may_start(self, now_s: float) -> bool:
        """Whether a slot may be started now."""
        return now_s >= self._from_s

    def ended(self, now_s: float, lived_s: float, *, healthy: bool) -> None:
        """Notes the end of a slot. healthy: it had begun an attempt, or left on command."""
        if healthy or lived_s > SOON_SECONDS:
            self._wait_s = self._from_s = 0.0
        else:
            self._wait_s = BACKOFF.next_s(self._wait_s)
            self._from_s = now_s + self._wait_s
