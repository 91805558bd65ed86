"""The state machine of a slot's one attempt: events in, effects out. Pure: no thread, no clock, no I/O.

    WAITING ──Deploy──> LOADING ──> CONNECTING ──> OPENING ──> RUNNING ──FinishSlot──> FINISHING
                           │             │            │           │                    │       │
                           └─────────────┴────────────┴───────────┴── CancelSlot or    │       │ a thread is late
                                                                      a failure        │       │
                                                                          v            │       v
                                                                      CANCELLING <─────│───────┘
                                                                          │            │
                                LEFT <── CLOSING <── STOPPING_UPLOADER <──┴────────────┘
                           Left or Failed

    handle(event, now_ms) ─> effects, in order, for `slot.runtime` to execute
    due_ms                ─> when to call handle(Tick(), now_ms) if no event comes before

The caller's duties, numbered:
1. `handle` is called for one event at a time, with time that never goes back.
2. Effects are executed in order. If an effect raises, the rest of its list is dropped, and its EffectFailed is handled
   before all queued events.
3. The event that an effect promises is queued behind the events that arrived meanwhile. So a CancelSlot that comes
   during one step of opening takes effect before the next step.
4. An effect that CancelSlot has interrupted no longer promises an event: the command itself is the next one.

The machine guarantees that Left or Failed is the last message and is sent once. Left means that a command ended the
attempt, Failed that an error came first. Either is sent after all threads have ended or their grace period has passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import assert_never

from headrace.core.errors import InternalError
from headrace.rpc import messages
from headrace.rpc.deployment import ASSIGNED_SPLITS
from headrace.rpc.failure import failure_of
from headrace.worker.control import Assign, AssignedSplit, Complete, Limit, Relay, Trigger
from headrace.worker.slot.attempt import events
from headrace.worker.slot.attempt.effects import (
    CancelSubtasks,
    CloseLinks,
    CloseParts,
    CommandAllSources,
    CommandSources,
    Connect,
    Effect,
    FinishSubtasks,
    FreeNames,
    GiveUpEpoch,
    JoinSubtasks,
    LoadPlan,
    OpenSubtasks,
    OrderEpoch,
    RemoveFolder,
    ReportStatus,
    Send,
    StartSubtasks,
    StopUploader,
    Warn,
)


class Phase(Enum):
    """The phase of an attempt in its slot."""

    WAITING = "waiting"
    LOADING = "loading"
    CONNECTING = "connecting"
    OPENING = "opening"
    RUNNING = "running"
    FINISHING = "finishing"
    CANCELLING = "cancelling"
    STOPPING_UPLOADER = "stopping uploader"
    CLOSING = "closing"
    LEFT = "left"


class AttemptMachine:
    """One attempt in one slot. grace_ms: how long threads may take to end after they were asked to."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._phase = Phase.WAITING
        self._job = ""
        self._attempt = 0
        self._tasks: frozenset[str] = frozenset()
        self._report_interval_ms = 0
        self._due_ms = 0
        self._deferred: deque[events.Event] = deque()
        self._ended: set[str] = set()
        self._failure: messages.Failure | None = None
        self._stuck = False
        self._effects: list[Effect] = []
        self._on: dict[Phase, Callable[[events.Event, int], None]] = {
            Phase.WAITING: self._on_waiting,
            Phase.LOADING: self._on_opening,
            Phase.CONNECTING: self._on_opening,
            Phase.OPENING: self._on_opening,
            Phase.RUNNING: self._on_running,
            Phase.FINISHING: self._on_leaving,
            Phase.CANCELLING: self._on_leaving,
            Phase.STOPPING_UPLOADER: self._on_leaving,
            Phase.CLOSING: self._on_leaving,
            Phase.LEFT: self._on_left,
        }

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    @property
    def due_ms(self) -> int | None:
        """The time (monotonic) at which the machine needs a Tick; None: it waits for events only."""
        return self._due_ms if self._phase is Phase.RUNNING else None

    @property
    def clean(self) -> bool:
        """Whether the attempt was left on command, with every thread ended."""
        return self._phase is Phase.LEFT and self._failure is None and not self._stuck

    def handle(self, event: events.Event, now_ms: int) -> list[Effect]:
        """Handles one event; returns the effects to execute, in order. `now_ms`: monotonic."""
        if self._phase is Phase.RUNNING and now_ms >= self._due_ms:
            self._due_ms = now_ms + self._report_interval_ms
            self._report(due=True)
        self._on[self._phase](event, now_ms)
        effects, self._effects = self._effects, []
        return effects

    def _do(self, *effects: Effect) -> None:
        self._effects += effects

    # ---- opening -----------------------------------------------------------------------------------------------------

    def _on_waiting(self, event: events.Event, _now_ms: int) -> None:
        match event:
            case messages.Deploy():
                self._job, self._attempt = event.job, event.attempt
                self._phase = Phase.LOADING
                self._do(LoadPlan(event))
            case events.Broken(failure):
                # the command that cannot be read may be the Deploy: the process ends, so that the attempt does not wait
                self._do(Warn(f"no Deploy was received: {failure.trace or failure.message}"))
                self._fail(failure)
            case _:
                pass  # a command for an attempt that never began in this slot has nothing to act on

    def _on_opening(self, event: events.Event, now_ms: int) -> None:
        match event:
            case events.Planned():
                self._tasks, self._report_interval_ms = frozenset(event.tasks), event.report_interval_ms
                self._phase = Phase.CONNECTING
                self._do(Connect())
            case events.Connected():
                self._phase = Phase.OPENING
                self._do(OpenSubtasks())
            case events.SubtasksOpened():
                self._run(now_ms)
            case events.EffectFailed(failure):
                # the loss of a peer interrupts the step, and is the cause to report
                broken = [each.failure for each in self._deferred if isinstance(each, events.Broken)]
                self._fail(broken[0] if broken else failure)
            case messages.CancelSlot():
                self._cancel()
            case _:
                # Broken is deferred too: the coordinator receives Deployed first, then Failed
                self._deferred.append(event)

    def _run(self, now_ms: int) -> None:
        self._phase = Phase.RUNNING
        self._due_ms = now_ms + self._report_interval_ms
        self._do(StartSubtasks(), Send(messages.Deployed(self._job, self._attempt)))
        self._report()
        while self._deferred and self._phase is Phase.RUNNING:
            self._on_running(self._deferred.popleft(), now_ms)

    # ---- running -----------------------------------------------------------------------------------------------------

    def _report(self, *, due: bool = False) -> None:
        self._do(ReportStatus(frozenset(self._ended), due))

    def _on_running(self, event: events.Event, _now_ms: int) -> None:
        match event:
            case events.TaskEnded(task):
                self._on_ended(task)
            case messages.Acked() | messages.Declined():
                # the counters as of this epoch must be reported before it completes: it may be the job's last epoch
                self._report()
                self._do(Send(event))
            case events.Broken(failure) | events.EffectFailed(failure):
                self._fail(failure)
            case messages.CancelSlot():
                self._cancel()
            case messages.FinishSlot():
                self._phase = Phase.FINISHING
                self._do(FinishSubtasks(), JoinSubtasks(self._grace_ms))
            case messages.AssignSplits() | messages.RelayHeights() | messages.LimitTime():
                self._on_source_command(event)
            case messages.TriggerEpoch() | messages.EpochCompleted() | messages.EpochAborted():
                self._on_epoch(event)
            case messages.Deploy():
                self._fail(failure_of(InternalError("a slot is deployed to once")))
            case events.Tick():
                pass  # `handle` has made the report that was due
            case (
                events.Planned()
                | events.Connected()
                | events.SubtasksOpened()
                | events.SubtasksJoined()
                | events.UploaderJoined()
                | events.PartsClosed()
            ):
                raise AssertionError(f"{event} answers no effect of a running attempt")
            case _:
                assert_never(event)

    def _on_ended(self, task: str) -> None:
        self._ended.add(task)
        if self._ended == self._tasks:
            self._report()
            self._do(Send(messages.InputEnded(self._job, self._attempt)))

    def _on_source_command(self, command: messages.AssignSplits | messages.RelayHeights | messages.LimitTime) -> None:
        match command:
            case messages.AssignSplits(source, splits, final, emitted):
                try:
                    assigned = _assigned(splits)
                except ValueError as error:
                    self._fail(failure_of(error))
                else:
                    self._do(CommandSources({source: Assign(assigned, final, emitted)}))
            case messages.RelayHeights(heights):
                self._do(CommandSources({source: Relay(height) for source, height in heights.items()}))
            case messages.LimitTime(limits):
                self._do(CommandSources({source: Limit(limit) for source, limit in limits.items()}))
            case _:
                assert_never(command)

    def _on_epoch(self, command: messages.TriggerEpoch | messages.EpochCompleted | messages.EpochAborted) -> None:
        match command:
            case messages.TriggerEpoch(epoch, savepoint, stop, drain):
                self._do(OrderEpoch(epoch, savepoint), CommandAllSources(Trigger(epoch, stop=stop, drain=drain)))
            case messages.EpochCompleted(epoch, renamed):
                self._do(FreeNames(epoch, {each.name: each.successor for each in renamed}))
                self._do(CommandAllSources(Complete(epoch)))
            case messages.EpochAborted(epoch):
                self._do(GiveUpEpoch(epoch))
            case _:
                assert_never(command)

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def _fail(self, failure: messages.Failure) -> None:
        self._failure = failure
        self._cancel()

    def _cancel(self) -> None:
        self._phase = Phase.CANCELLING
        self._do(CancelSubtasks(), JoinSubtasks(self._grace_ms))

    def _on_leaving(self, event: events.Event, _now_ms: int) -> None:
        match event:
            case events.SubtasksJoined(late) if late and self._phase is Phase.FINISHING:
                self._cancel()
            case events.SubtasksJoined(late):
                self._stuck = bool(late)
                self._phase = Phase.STOPPING_UPLOADER
                self._do(CloseLinks(), StopUploader(self._grace_ms))
            case events.UploaderJoined(late):
                self._stuck = self._stuck or late
                self._phase = Phase.CLOSING
                self._do(CloseParts())
            case events.PartsClosed(errors):
                # the outcome is decided already, so an error on closing goes to the slot's log only
                self._do(*(Warn(f"{self._job}: while it was closed: {error}") for error in errors))
                self._do(RemoveFolder())
                self._leave()
            case events.EffectFailed(failure):
                self._failure, self._stuck = self._failure or failure, True
                self._do(Warn(f"{self._job}: leaving attempt {self._attempt}: {failure.trace or failure.message}"))
                self._leave()
            case _:
                pass  # cancelled subtasks raise; commands and acknowledgements have nothing left to act on

    def _leave(self) -> None:
        self._phase = Phase.LEFT
        job, attempt, failure = self._job, self._attempt, self._failure
        self._do(Send(messages.Left(job, attempt) if failure is None else messages.Failed(job, attempt, failure)))

    def _on_left(self, event: events.Event, now_ms: int) -> None:
        """Ignores every event: Left or Failed was the last message."""


def _assigned(splits: bytes) -> tuple[AssignedSplit, ...]:
    documents = ASSIGNED_SPLITS.validate_json(splits)
    return tuple(AssignedSplit(each.split.split(), each.state) for each in documents)
