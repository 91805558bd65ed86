"""A slot without rows: the real attempt machine and the real open epochs, answered at once.

    command ──> AttemptMachine ──> effects ──> messages of a slot that has nothing to read
                     ^                │
                     └── events <─────┘

What a slot decides, says and acknowledges is the product's, and so are the documents that it says it in. Left out are
what a slot's process has beside that: subtasks and their threads, clients of brokers, state files, links to peers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import assert_never

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS
from headrace.rpc import codec
from headrace.rpc.deployment import Deployment
from headrace.rpc.messages import Acked, Deploy, FromSlot, SlotInfo, Status
from headrace.worker.control import Assign, Command, Trigger
from headrace.worker.slot.attempt import effects as do
from headrace.worker.slot.attempt.epochs import SlotEpochs
from headrace.worker.slot.attempt.events import (
    Connected,
    Event,
    PartsClosed,
    Planned,
    SubtasksJoined,
    SubtasksOpened,
    Tick,
    UploaderJoined,
)
from headrace.worker.slot.attempt.machine import AttemptMachine, Phase
from headrace.worker.slot.status_report import INTERVAL_MS, DueReports, report_interval_ms
from support.clusters.rowless.subtasks import IdleSubtasks, Plans

GRACE_MS = 30_000


class RowlessSlot:
    """One slot. Belongs to one thread.

    say      sends the coordinator an encoded message
    on_left  called once, after the slot's last message; clean: it left on command
    """

    def __init__(
        self, info: SlotInfo, plans: Plans, say: Callable[[bytes], None], on_left: Callable[[RowlessSlot, bool], None]
    ) -> None:
        self.info = info
        self._plans = plans
        self._say = say
        self._on_left = on_left
        self._machine = AttemptMachine(GRACE_MS)
        self._queue: deque[Event] = deque()
        self._handling = False
        self._deploy: Deploy | None = None
        self._subtasks: IdleSubtasks | None = None
        self._epochs: SlotEpochs[int] = SlotEpochs(0)
        self._reports = DueReports(INTERVAL_MS)

    @property
    def busy(self) -> bool:
        """Whether something was deployed to it."""
        return self._deploy is not None

    @property
    def due_ms(self) -> int | None:
        """When it needs a `tick`; None: never."""
        return self._machine.due_ms

    def receive(self, payload: bytes) -> None:
        """A command of the coordinator."""
        command = codec.to_slot(payload)
        if self._deploy is None and isinstance(command, Deploy):
            self._deploy = command
        self._put(command)

    def tick(self) -> None:
        """A report is due."""
        self._put(Tick())

    def _put(self, event: Event) -> None:
        """Handles the event, or queues it behind those that are being handled."""
        self._queue.append(event)
        if self._handling:
            return
        self._handling = True
        while self._queue:
            for effect in self._machine.handle(self._queue.popleft(), now_ms()):
                self._execute(effect)
        self._handling = False
        if self._machine.phase is Phase.LEFT:
            self._on_left(self, self._machine.clean)

    def _execute(self, effect: do.Effect) -> None:
        match effect:
            case do.Send(message):
                self._send(message)
            case do.ReportStatus(ended, due):
                self._report(ended, due=due)
            case do.CommandSources(commands):
                self._command(commands)
            case do.CommandAllSources(Trigger(epoch)):
                self._snapshot(epoch)
            case do.OrderEpoch(epoch, savepoint):
                self._epochs.order(epoch, savepoint, now_ms())
            case do.GiveUpEpoch(epoch):
                self._epochs.give_up(epoch)
            case do.LoadPlan() | do.Connect() | do.OpenSubtasks():
                self._put(self._opened(effect))
            case do.JoinSubtasks():
                self._put(SubtasksJoined(()))
            case do.StopUploader():
                self._put(UploaderJoined(late=False))
            case do.CloseParts():
                self._put(PartsClosed(()))
            case (
                do.CommandAllSources()
                | do.FreeNames()
                | do.StartSubtasks()
                | do.FinishSubtasks()
                | do.CancelSubtasks()
                | do.CloseLinks()
                | do.Warn()
                | do.RemoveFolder()
            ):
                pass  # parts that this slot does not have
            case _:
                assert_never(effect)

    def _opened(self, effect: do.LoadPlan | do.Connect | do.OpenSubtasks) -> Event:
        match effect:
            case do.LoadPlan(deploy):
                deployment = Deployment.model_validate_json(deploy.deployment)
                plan = self._plans.of(deployment)
                self._subtasks = IdleSubtasks(plan, deployment.slot)
                self._epochs = SlotEpochs(len(self._subtasks.tasks))
                interval_ms = report_interval_ms(plan)
                self._reports = DueReports(interval_ms)
                return Planned(self._subtasks.tasks, interval_ms)
            case do.Connect():
                return Connected()
            case do.OpenSubtasks():
                return SubtasksOpened()
            case _:
                assert_never(effect)

    @property
    def _attempt(self) -> Deploy:
        assert self._deploy is not None, "something was deployed"
        return self._deploy

    @property
    def _running(self) -> IdleSubtasks:
        assert self._subtasks is not None, "its plan is loaded"
        return self._subtasks

    def _report(self, ended: frozenset[str], *, due: bool) -> None:
        status = self._running.status(ended)
        if due and not self._reports.is_news(status.sources, now_ms()):
            return
        self._reports.made(status.sources, now_ms())
        deploy = self._attempt
        self._send(Status(deploy.job, deploy.attempt, status.model_dump_json().encode()))

    def _command(self, commands: Mapping[str, Command]) -> None:
        for source, command in commands.items():
            if isinstance(command, Assign):
                self._running.assign(source, command)

    def _snapshot(self, epoch: int) -> None:
        """The barrier passes all subtasks at once, and their snapshots are in storage: nothing is in them."""
        for index, _ in enumerate(self._running.tasks):
            self._epochs.snapshotted(epoch, index, now_ms())
        while (upload := self._epochs.take()) is not None:
            done = self._epochs.uploaded(upload.epoch, self._running.document(upload.snapshot), 0)
            if done is not None:
                text = SUBTASK_DOCUMENTS.dump_json(done.documents)
                deploy = self._attempt
                self._put(
                    Acked(deploy.job, deploy.attempt, done.number, text, now_ms() - done.begun_ms, done.bytes, b"")
                )

    def _send(self, message: FromSlot) -> None:
        self._say(codec.from_slot_bytes(message))


def now_ms() -> int:
    """Monotonic."""
    return time.monotonic_ns() // 1_000_000
