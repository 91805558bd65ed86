"""One attempt of one job in a slot process: its subtasks from deployment to the end.

    Deploy ──> plan again, restore, open, connect ──> Deployed ──> commands, events ──┬─ FinishSlot ──> leave ──> Left
                                │                                  in turn, and       ├─ CancelSlot ──> cancel ─> Left
                                └──────────── an error ───────────┐status reports     └─ an error ────> cancel ─> Failed
                                                                  └──> cancel ──> Failed

One thread, the attempt's own, does all of it. Commands of the coordinator and events of the subtasks' threads come to
it through one queue, so nothing here needs a lock. Threads of subtasks and of the uploader only run their loops.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import assert_never

from headrace.checkpoint.store import open_folder, open_store, read_url
from headrace.core.clock import SystemClock
from headrace.core.errors import InternalError
from headrace.exchange.channel import Cancelled
from headrace.exchange.transport import Listener
from headrace.plan.physical import Task
from headrace.rpc.deployment import ASSIGNED_SPLITS, Deployment
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import (
    Acked,
    AssignSplits,
    CancelSlot,
    Declined,
    Deploy,
    Deployed,
    EpochAborted,
    EpochCompleted,
    Failed,
    Failure,
    FinishSlot,
    FromSlot,
    InputEnded,
    Left,
    LimitTime,
    RelayHeights,
    Status,
    ToSlot,
    TriggerEpoch,
)
from headrace.worker.control import Assign, AssignedSplit, Complete, Limit, Relay, SubtaskSnapshot, Trigger
from headrace.worker.deployed_plan import deployed_plan
from headrace.worker.lease import Lease
from headrace.worker.restore import NodeStates, restored_states
from headrace.worker.slot_links import SlotLinks
from headrace.worker.slot_slice import Slice, SliceOptions
from headrace.worker.status_report import StatusReport, report_interval_ms
from headrace.worker.uploader import Uploader, UploadPlan
from headrace.worker.user_code import fetch_code, put_on_path

_log = logging.getLogger(__name__)

CANCEL_GRACE_MS = 30_000
"""How long a subtask may take to leave after cancel; then its slot's process has to end under it."""


Command = Deploy | AssignSplits | RelayHeights | LimitTime | TriggerEpoch | EpochCompleted | EpochAborted | CancelSlot
"""What a running attempt obeys without leaving, but for CancelSlot."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A task's subtask has seen the end of its input."""

    task: str


class _Broken(Exception):  # noqa: N818 - a message to the attempt's thread before it is raised there
    """Something failed: a subtask's loop (`task`), the uploader or a connection (None)."""

    def __init__(self, error: BaseException, task: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.task = task


class _Cancel(Exception):  # noqa: N818 - a request, not an error
    """Leave the attempt now, on command."""


class SlotRuntime:
    """Runs the subtasks of a slot for one attempt. `obey` and `close` belong to the slot's control thread.

    left   set once the attempt has been left, for whatever reason: the process may exit (see `clean`)
    clean  it left on command (Finish or Cancel), every thread has ended and everything is closed

    The listener is closed with the attempt: peers hear a goodbye, or they would take the end for a loss. `say` is
    called by several threads, one call for each message; it must not block for long.
    """

    def __init__(
        self,
        deploy: Deploy,
        listener: Listener,
        say: Callable[[FromSlot], None],
        *,
        lease: Lease | None = None,
        cancel_grace_ms: int = CANCEL_GRACE_MS,
    ) -> None:
        self._deploy = deploy
        self._listener = listener
        self._say = say
        self._lease = lease
        self._grace_s = cancel_grace_ms / 1000
        self._clock = SystemClock()
        self._queue: SimpleQueue[ToSlot | Acked | Declined | _Ended | _Broken] = SimpleQueue()
        self._cancelled = threading.Event()
        self._ended: set[str] = set()
        self._slice: Slice | None = None
        self._links: SlotLinks | None = None
        self._uploader: Uploader | None = None
        self._upload_thread: threading.Thread | None = None
        self._folder: Path | None = None
        self.left = threading.Event()
        self.clean = False
        self._thread = threading.Thread(target=self._run, name=f"attempt-{deploy.attempt}", daemon=True)
        self._thread.start()

    def obey(self, command: ToSlot) -> None:
        """Takes a command; returns at once. What comes after the end is ignored."""
        if isinstance(command, CancelSlot):
            self._cancelled.set()
        self._queue.put(command)

    def close(self) -> None:
        """Cancels what still runs and waits for it. Idempotent."""
        self.obey(CancelSlot())
        self._thread.join(2 * self._grace_s)

    # ---- subtask events, called by the subtasks' threads -------------------------------------------------------------

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """A barrier has passed a subtask: its snapshot goes into storage."""
        assert self._uploader is not None, "there is an uploader before a subtask runs"
        self._uploader.snapshotted(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        """EndOfInput has passed a subtask."""
        self._queue.put(_Ended(task))

    def _guard(self, task: str | None, run: Callable[[], None]) -> None:
        try:
            run()
        except Cancelled:
            pass
        except BaseException as error:  # the shell of a task: every failure is the attempt's failure
            self._queue.put(_Broken(error, task))

    # ---- from deployment to the end ----------------------------------------------------------------------------------

    def _run(self) -> None:
        job, attempt = self._deploy.job, self._deploy.attempt
        failure: Failure | None = None
        finished = False
        try:
            self._open()
            self._say(Deployed(job, attempt))
            self._obey_until_finished()
            finished = True
        except _Cancel:
            pass
        except _Broken as broken:
            index = None if self._slice is None else self._slice.index
            subtask = None if broken.task is None else index
            failure = failure_of(broken.error, node=broken.task, subtask=subtask)
        except BaseException as error:  # the shell of the attempt: whatever it is, it is said
            failure = failure_of(error)
        try:
            stuck = self._leave(finished=finished)
        except Exception as error:  # nothing keeps the slot from saying how it ended
            _log.exception("%s: leaving attempt %d", job, attempt)
            failure, stuck = failure or failure_of(error), True
        self.clean = failure is None and not stuck
        try:
            self._say(Left(job, attempt) if failure is None else Failed(job, attempt, failure))
        finally:
            self.left.set()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise _Cancel

    def _open(self) -> None:
        """Everything up to the first row. A cancel takes effect between two steps."""
        deploy = self._deploy
        deployment = Deployment.model_validate_json(deploy.deployment)
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-slot-"))
        put_on_path([*fetch_code(deployment.code, self._folder, read_url), *deployment.python_path])
        plan = deployed_plan(deployment)
        self._check_cancelled()
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
        self._slice = Slice(plan, options, self, self._clock)
        self._open_uploader(deployment, self._slice)
        self._links = SlotLinks(deploy, deployment, self._listener, self._on_lost)
        self._links.open(self._slice.mailboxes, self._slice.fed_slots, self._check_cancelled)
        self._slice.open(lambda task: self._restored(deployment, task), self._links.outlet)
        self._check_cancelled()
        self._slice.start(self._guard)

    def _open_uploader(self, deployment: Deployment, running: Slice) -> None:
        deploy = self._deploy
        parallelism = {task.name: task.parallelism for task in running.tasks}
        plan = UploadPlan(deploy.job, deploy.attempt, parallelism, running.plan.max_parallelism)
        self._uploader = uploader = Uploader(plan, open_store(deployment.storage), open_folder, self._queue.put)
        self._upload_thread = threading.Thread(
            target=lambda: self._guard(None, uploader.run), name="upload", daemon=True
        )
        self._upload_thread.start()

    def _restored(self, deployment: Deployment, task: Task) -> NodeStates:
        self._check_cancelled()
        assert self._slice is not None
        return restored_states(
            deployment.restore,
            [node.node for node in task.nodes],
            self._slice.index,
            of=task.parallelism,
            max_parallelism=self._slice.plan.max_parallelism,
            read=read_url,
        )

    def _on_lost(self, error: Exception) -> None:
        """A peer is gone: called by the threads of the exchange."""
        self._queue.put(_Broken(error, None))

    def _leave(self, *, finished: bool) -> bool:
        """Ends every thread and closes every part. True: a thread did not let go and was left behind."""
        running, stuck = self._slice, False
        if finished and running is not None:
            running.finish()
            finished = not running.join(self._grace_s)
        if not finished:
            if self._links is not None:
                self._links.cancel()
            if running is not None:
                running.cancel()
                stuck = bool(running.join(self._grace_s))
        if self._links is not None:
            self._links.close()
        if self._uploader is not None and self._upload_thread is not None:
            self._uploader.stop()
            self._upload_thread.join(self._grace_s)
            stuck = stuck or self._upload_thread.is_alive()
        for error in [] if running is None else running.close():
            # the attempt is over and its outcome is decided: what does not close is told in the slot's log only
            _log.warning("%s: while it was closed: %s: %s", self._deploy.job, type(error).__name__, error)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return stuck

    # ---- commands and events -----------------------------------------------------------------------------------------

    def _obey_until_finished(self) -> None:
        """Returns on FinishSlot. Raises _Cancel on CancelSlot, _Broken when something failed."""
        running = self._slice
        assert running is not None
        interval_ms = report_interval_ms(running.plan)
        report = StatusReport(running, self._clock.monotonic_ms())
        due_ms = self._clock.monotonic_ms()
        while True:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= due_ms:
                due_ms = now_ms + interval_ms
                self._report(report)
            try:
                item = self._queue.get(timeout=(due_ms - now_ms) / 1000)
            except Empty:
                continue
            match item:
                case _Ended(task):
                    self._ended.add(task)
                    if len(self._ended) == len(running.tasks):
                        self._report(report)
                        self._say(InputEnded(self._deploy.job, self._deploy.attempt))
                case Acked() | Declined():
                    # the counts that belong to an epoch are known before it is: it may be the job's last
                    self._report(report)
                    self._say(item)
                case _Broken():
                    raise item
                case FinishSlot():
                    return
                case _:
                    self._on_command(item, running)

    def _report(self, report: StatusReport) -> None:
        status = report.report(self._clock.monotonic_ms(), frozenset(self._ended))
        self._say(Status(self._deploy.job, self._deploy.attempt, status.model_dump_json().encode()))

    def _on_command(self, command: Command, running: Slice) -> None:
        assert self._uploader is not None
        match command:
            case AssignSplits(source, splits, final, emitted):
                running.tell({source: Assign(_assigned(splits), final, emitted)})
            case TriggerEpoch(epoch, savepoint, stop, drain):
                self._uploader.order(epoch, savepoint)
                running.tell(dict.fromkeys(running.sources, Trigger(epoch, stop=stop, drain=drain)))
            case EpochCompleted(epoch, renamed):
                running.committed(epoch, {each.name: each.successor for each in renamed})
                running.tell(dict.fromkeys(running.sources, Complete(epoch)))
            case EpochAborted(epoch):
                self._uploader.give_up(epoch)
            case RelayHeights(heights):
                running.tell({source: Relay(height) for source, height in heights.items()})
            case LimitTime(limits):
                running.tell({source: Limit(limit) for source, limit in limits.items()})
            case CancelSlot():
                raise _Cancel
            case Deploy():
                raise InternalError("a slot is deployed to once")
            case _:
                assert_never(command)


def _assigned(splits: bytes) -> tuple[AssignedSplit, ...]:
    documents = ASSIGNED_SPLITS.validate_json(splits)
    return tuple(AssignedSplit(each.split.split(), each.state) for each in documents)
