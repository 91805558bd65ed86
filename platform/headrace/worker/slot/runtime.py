"""The shell of an attempt: executes what `attempt.machine` decides on the real slice, links and uploader.

    coordinator's commands ──┐
    subtasks, peers ─────────┼──> queue ──> AttemptMachine ──> effects ──> Slice, SlotLinks, Uploader, pipe
    uploader ────────────────┘      ^                                         │
                                    └────────── results of effects ───────────┘

One thread, the attempt's own, feeds the machine and executes its effects, so nothing here needs a lock. It waits for a
Deploy first. Threads of subtasks and of the uploader only run their loops. This module decides nothing: the machine
decides every next step.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import assert_never

from headrace.checkpoint.stores.opening import open_folder, open_store, read_url, read_url_range
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.exchange.mailbox import TaskCancelledError
from headrace.exchange.network.incoming import Listener
from headrace.plan.physical import Task
from headrace.rpc import codec
from headrace.rpc.deployment import Deployment
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Acked, CancelSlot, Declined, Deploy, FromSlot, Status, ToSlot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.lease import Lease
from headrace.worker.slot.attempt import effects, events
from headrace.worker.slot.attempt.machine import AttemptMachine, Phase
from headrace.worker.slot.deployed_plan import deployed_plan
from headrace.worker.slot.links import SlotLinks
from headrace.worker.slot.slice import Slice, SliceOptions
from headrace.worker.slot.status_report import StatusReport, report_interval_ms
from headrace.worker.slot.user_code import fetch_code, put_on_path
from headrace.worker.state.opened_place import opened_place
from headrace.worker.state.restore import NodeStates, OwnFolders, restored_states
from headrace.worker.state.snapshot_documents import UploadPlan
from headrace.worker.state.uploader import Uploader

_log = logging.getLogger(__name__)

CANCEL_GRACE_MS = 30_000
"""How long subtasks may take to end after a cancel; then the process exits although their threads still run."""


class SlotRuntime:
    """Runs the subtasks of a slot for one attempt, which its first Deploy begins.

    left   set once the attempt has been left for any reason: the process may exit (see `clean`)
    clean  the attempt was left on command (Finish or Cancel), every thread has ended and everything is closed

    The attempt closes the listener, so that its connections send a goodbye: peers would take an end without one for a
    lost slot. `send` and `on_job` are called in the attempt's thread, and must not block for long.
    """

    def __init__(
        self,
        listener: Listener,
        send: Callable[[bytes], None],
        *,
        lease: Lease | None = None,
        cancel_grace_ms: int = CANCEL_GRACE_MS,
        on_job: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`send`: sends an encoded FromSlot message. `on_job`: called with the job's id when its attempt begins."""
        self._listener = listener
        self._send = send
        self._lease = lease
        self._on_job = on_job
        self._grace_s = cancel_grace_ms / 1000
        self._clock = SystemClock()
        self._queue: SimpleQueue[events.Event] = SimpleQueue()
        self._cancelled = threading.Event()
        self._machine = AttemptMachine(cancel_grace_ms)
        self._deploy: Deploy | None = None
        self._deployment: Deployment | None = None
        self._slice: Slice | None = None
        self._report: StatusReport | None = None
        self._links: SlotLinks | None = None
        self._uploader: Uploader | None = None
        self._upload_thread: threading.Thread | None = None
        self._folder: Path | None = None
        self.left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="attempt", daemon=True)
        self._thread.start()

    @property
    def clean(self) -> bool:
        """Whether the attempt was left on command, with every thread ended and everything closed."""
        return self._machine.clean

    @property
    def waiting(self) -> int:
        """How many events wait for the attempt's thread."""
        return self._queue.qsize()

    def receive(self, payload: bytes) -> None:
        """Decodes a command and queues it, never blocks. A command that cannot be decoded fails the attempt."""
        try:
            self.obey(codec.to_slot(payload))
        except ExternalError as error:
            self.fail(error)

    def obey(self, command: ToSlot) -> None:
        """Queues a command; never blocks. Commands after the end of the attempt are ignored."""
        if isinstance(command, CancelSlot):
            self._cancelled.set()
        elif isinstance(command, Deploy):
            # a CancelSlot before it was for an attempt that never began here
            self._cancelled.clear()
        self._queue.put(command)

    def close(self) -> None:
        """Cancels what still runs and waits until it has ended, at most twice the grace period. Idempotent."""
        self.obey(CancelSlot())
        self._thread.join(2 * self._grace_s)

    # ---- subtask events, called by the subtasks' threads -------------------------------------------------------------

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """A barrier has passed a subtask: passes its snapshot to the uploader."""
        assert self._uploader is not None, "there is an uploader before a subtask runs"
        self._uploader.snapshotted(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        """EndOfInput has passed a subtask."""
        self._queue.put(events.TaskEnded(task))

    def _guard(self, task: str | None, run: Callable[[], None]) -> None:
        try:
            run()
        except TaskCancelledError:
            pass
        except BaseException as error:  # the shell of a task: every failure is the attempt's failure
            subtask = None if task is None or self._slice is None else self._slice.index
            self._queue.put(events.Broken(failure_of(error, node=task, subtask=subtask)))

    def fail(self, error: Exception) -> None:
        """Fails the attempt: a peer is lost, or a command cannot be decoded. Called by any thread."""
        self._queue.put(events.Broken(failure_of(error)))

    # ---- events and effects ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._machine.phase is not Phase.LEFT:
                self._handle(self._next())
        finally:
            self.left.set()

    def _next(self) -> events.Event:
        due_ms = self._machine.due_ms
        if due_ms is None:
            return self._queue.get()
        left_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        try:
            return self._queue.get(timeout=left_ms / 1000)
        except Empty:
            return events.Tick()

    def _handle(self, event: events.Event) -> None:
        try:
            for effect in self._machine.handle(event, self._clock.monotonic_ms()):
                self._execute(effect)
        except BaseException as error:  # the shell of the attempt: every error becomes an event and is reported
            self._handle(events.EffectFailed(failure_of(error)))

    def _execute(self, effect: effects.Effect) -> None:  # noqa: PLR0912 - one line an effect
        match effect:
            case effects.Send(message):
                self._send_message(message)
            case effects.ReportStatus(ended, due):
                self._send_status(ended, due=due)
            case effects.CommandSources(commands):
                self._running.tell(commands)
            case effects.CommandAllSources(command):
                for source in self._running.sources.values():
                    source.tell(command)
            case effects.OrderEpoch(epoch, savepoint):
                assert self._uploader is not None, "there is an uploader before an epoch"
                self._uploader.order(epoch, savepoint)
            case effects.GiveUpEpoch(epoch):
                assert self._uploader is not None, "there is an uploader before an epoch"
                self._uploader.give_up(epoch)
            case effects.FreeNames(epoch, successors):
                self._running.committed(epoch, successors)
            case effects.StartSubtasks():
                assert self._report is not None, "subtasks that start are open"
                self._report.begin(self._clock.monotonic_ms())
                self._running.start(self._guard)
            case effects.FinishSubtasks():
                self._running.finish()
            case effects.CancelSubtasks():
                self._cancel()
            case effects.CloseLinks():
                if self._links is not None:
                    self._links.close()
            case effects.Warn(text):
                _log.warning("%s", text)
            case effects.RemoveFolder():
                if self._folder is not None:
                    shutil.rmtree(self._folder, ignore_errors=True)
            case effects.LoadPlan() | effects.Connect() | effects.OpenSubtasks():
                self._execute_opening(effect)
            case effects.JoinSubtasks() | effects.StopUploader() | effects.CloseParts():
                self._queue.put(self._ended(effect))
            case _:
                assert_never(effect)

    def _execute_opening(self, effect: effects.LoadPlan | effects.Connect | effects.OpenSubtasks) -> None:
        try:
            self._queue.put(self._opened(effect))
        except TaskCancelledError:
            # After CancelSlot the command itself is in the queue, and its event follows. A lost peer interrupts the
            # step too, but then no command follows: the error is reported.
            if not self._cancelled.is_set():
                raise

    def _opened(self, effect: effects.LoadPlan | effects.Connect | effects.OpenSubtasks) -> events.Event:
        """Executes a step of opening; returns the event that the effect promises."""
        match effect:
            case effects.LoadPlan(deploy):
                return self._load_plan(deploy)
            case effects.Connect():
                return self._connect()
            case effects.OpenSubtasks():
                return self._open_subtasks()
            case _:
                assert_never(effect)

    def _ended(self, effect: effects.JoinSubtasks | effects.StopUploader | effects.CloseParts) -> events.Event:
        """Executes a step of leaving; returns the event that the effect promises."""
        match effect:
            case effects.JoinSubtasks(timeout_ms):
                running = self._slice
                return events.SubtasksJoined(() if running is None else tuple(running.join(timeout_ms / 1000)))
            case effects.StopUploader(timeout_ms):
                return self._stop_uploader(timeout_ms)
            case effects.CloseParts():
                errors = () if self._slice is None else self._slice.close()
                return events.PartsClosed(tuple(f"{type(error).__name__}: {error}" for error in errors))
            case _:
                assert_never(effect)

    @property
    def _running(self) -> Slice:
        assert self._slice is not None, "an attempt that runs has a slice"
        return self._slice

    def _send_message(self, message: FromSlot) -> None:
        # a process that was frozen may resume here, before the thread that watches the lease
        if self._lease is not None:
            self._lease.exit_if_expired()
        self._send(codec.from_slot_bytes(message))

    def _send_status(self, ended: frozenset[str], *, due: bool) -> None:
        assert self._report is not None and self._deploy is not None, "an attempt that runs has a report"
        status = self._report.report(self._clock.monotonic_ms(), ended, due=due)
        if status is None:
            return
        self._send_message(Status(self._deploy.job, self._deploy.attempt, status.model_dump_json().encode()))

    # ---- opening -----------------------------------------------------------------------------------------------------

    def _check_cancelled(self) -> None:
        """Interrupts a long step of opening. Raises TaskCancelledError once CancelSlot has come."""
        if self._cancelled.is_set():
            raise TaskCancelledError

    def _load_plan(self, deploy: Deploy) -> events.Planned:
        self._on_job(deploy.job)
        self._deploy = deploy
        self._deployment = deployment = Deployment.model_validate_json(deploy.deployment)
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-slot-"))
        put_on_path([*fetch_code(deployment.code, self._folder, read_url), *deployment.python_path])
        plan = deployed_plan(deployment)
        options = SliceOptions(
            deploy.job,
            deployment.slot,
            aligned=deployment.mode == "exactly-once",
            watermark_interval_ms=deployment.watermark_interval_ms,
            floors=deployment.floors,
            lease=self._lease,
            hand_over=deployment.hand_over,
            attempt=deploy.attempt,
        )
        place = opened_place(plan.state, plan.max_parallelism)
        self._slice = Slice(plan, options, self, self._clock, place=place)
        return events.Planned(tuple(task.name for task in self._slice.tasks), report_interval_ms(plan))

    def _connect(self) -> events.Connected:
        assert self._deploy is not None and self._deployment is not None, "the plan is loaded"
        self._start_uploader(self._deploy, self._deployment.storage, self._running)
        self._links = SlotLinks(self._deploy, self._deployment, self._listener, self.fail)
        self._links.open(self._running.mailboxes, self._running.fed_slots, self._check_cancelled)
        return events.Connected()

    def _start_uploader(self, deploy: Deploy, storage: str, running: Slice) -> None:
        parallelism = {task.name: task.parallelism for task in running.tasks}
        file_bytes = running.place.budget.piece_bytes
        plan = UploadPlan(deploy.job, deploy.attempt, parallelism, running.plan.max_parallelism, file_bytes)

        def send(message: Acked | Declined) -> None:
            # the upload has read all new rows; once an epoch, in its thread
            running.place.release_pages()
            self._queue.put(message)

        self._uploader = uploader = Uploader(plan, open_store(storage), open_folder, send)
        self._upload_thread = threading.Thread(
            target=lambda: self._guard(None, uploader.run), name="upload", daemon=True
        )
        self._upload_thread.start()

    def _open_subtasks(self) -> events.SubtasksOpened:
        assert self._deployment is not None and self._links is not None, "the slot is connected"
        deployment, running = self._deployment, self._running
        running.open(lambda task: self._restored(deployment, task), self._links.outlet, deployment.formats)
        self._report = StatusReport(running, self._clock.monotonic_ms())
        return events.SubtasksOpened()

    def _restored(self, deployment: Deployment, task: Task) -> NodeStates:
        def read(path: str, offset: int, /, *, length: int) -> bytes:
            self._check_cancelled()
            return read_url_range(path, offset, length=length)

        return restored_states(
            deployment.restore,
            [node.node for node in task.nodes],
            self._running.index,
            of=task.parallelism,
            max_parallelism=self._running.plan.max_parallelism,
            read=read,
            owned=OwnFolders(deployment.storage, deployment.claimed),
            piece_bytes=self._running.place.budget.piece_bytes,
        )

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        if self._links is not None:
            self._links.cancel()
        if self._slice is not None:
            self._slice.cancel()

    def _stop_uploader(self, timeout_ms: int) -> events.UploaderJoined:
        if self._uploader is None or self._upload_thread is None:
            return events.UploaderJoined(late=False)
        self._uploader.stop()
        self._upload_thread.join(timeout_ms / 1000)
        return events.UploaderJoined(self._upload_thread.is_alive())
