"""A slot process: the real attempt machine over simulated parts, as `worker.slot.runtime` runs it over real ones.

What a slot decides (what opens when, which word is said, what a command does, when it leaves) is the machine's. The
parts (`subtasks`, `uploads`, links to peers) are modelled: how long they take, and how they fail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.rpc.messages import Deploy, Failed, Failure, FromSlot, Left, ToSlot
from headrace.worker.slot.attempt import effects as do
from headrace.worker.slot.attempt.events import (
    Broken,
    Connected,
    EffectFailed,
    Event,
    PartsClosed,
    Planned,
    SubtasksJoined,
    SubtasksOpened,
    Tick,
    UploaderJoined,
)
from headrace.worker.slot.attempt.machine import AttemptMachine
from sim.audit.poison import CRASH
from sim.audit.slot import SlotAuditor
from sim.external.outside import SOURCE
from sim.processes.subtasks import TASKS, Deployment, Subtasks
from sim.processes.uploads import Snapshot, Uploads
from sim.world import Process

if TYPE_CHECKING:
    from sim.processes.worker import Worker

LEASE_MS = 10_000
GRACE_MS = 30_000
REPORT_MS = 20_000
"""Rarer than in a real slot: reports decide nothing here."""
HANGS_MS = 600_000


class Slot(Process):
    """One process; runs one attempt at most."""

    def __init__(self, worker: Worker, name: str) -> None:
        super().__init__(worker.world, name)
        self._worker = worker
        self._machine = AttemptMachine(GRACE_MS)
        self._auditor = SlotAuditor(self, GRACE_MS)
        self._queue: deque[Event] = deque()
        self._handling = False
        self._executing = False
        """An effect that takes time is being executed: events wait."""
        self._armed = False
        self._deploy: Deploy | None = None
        self.subtasks: Subtasks | None = None
        self.uploads: Uploads | None = None
        self.linked = False
        """Peers would take its end for a loss."""
        self.frozen_ms = 0
        self.poisoned = False
        self.ending = Failure(f"slot {name} is lost", "external", retry=True)
        """How its worker reports its end: somebody has killed it, unless it crashes."""
        self.after(LEASE_MS, self._look)

    @property
    def busy(self) -> bool:
        """Whether something was deployed to it."""
        return self._deploy is not None

    @property
    def attempt(self) -> int:
        """The one that was deployed to it."""
        return 0 if self._deploy is None else self._deploy.attempt

    # ---- events --------------------------------------------------------------------------------------------------

    def told(self, command: ToSlot) -> None:
        """A command of the coordinator has arrived."""
        if self._deploy is None and isinstance(command, Deploy):
            self._deploy = command
        self.put(command)

    def put(self, event: Event, why: str = "") -> None:
        """Something happens to the slot; the machine is told of it in turn."""
        if why:
            self.world.tell(f"{self.name}: {why}")
        self._queue.append(event)
        self._pump()

    def lose_peer(self) -> None:
        """A connection to another slot of the attempt breaks."""
        if self.linked:
            self.put(Broken(Failure("a peer is gone", "external", retry=True)), "a peer is gone")

    def _pump(self) -> None:
        if self._handling:
            return
        self._handling = True
        while self._queue and not self._executing and self.alive:
            event = self._queue.popleft()
            self._auditor.handles(event)
            for effect in self._machine.handle(event, self.world.now_ms):
                if self.alive:
                    self._execute(effect)
        self._handling = False
        due_ms = self._machine.due_ms
        if due_ms is not None and not self._armed:
            self._armed = True
            self.after(due_ms - self.world.now_ms, self._on_due)

    def _on_due(self) -> None:
        self._armed = False
        self.put(Tick())

    # ---- effects -------------------------------------------------------------------------------------------------

    def _execute(self, effect: do.Effect) -> None:
        match effect:
            case do.Send(word):
                self._say(word)
            case do.ReportStatus():
                self._auditor.reported()
            case do.CloseLinks():
                self.linked = False
            case do.Warn(text):
                self.world.tell(f"{self.name}: {text}")
            case do.RemoveFolder():
                pass
            case do.CancelSubtasks():
                self._auditor.leaves()
                if self.subtasks is not None:
                    self.subtasks.cancel()
            case do.LoadPlan() | do.Connect() | do.OpenSubtasks():
                self._open(effect)
            case do.JoinSubtasks() | do.StopUploader() | do.CloseParts():
                self._leave(effect)
            case _:
                self._on_running(effect)

    def _on_running(self, effect: do.Effect) -> None:
        assert self.subtasks is not None and self.uploads is not None, "it runs"
        match effect:
            case do.CommandSources(commands):
                self.subtasks.tell(commands)
            case do.CommandAllSources(command):
                self.subtasks.tell({SOURCE: command})
            case do.OrderEpoch(epoch, savepoint):
                self.uploads.order(epoch, savepoint)
            case do.GiveUpEpoch(epoch):
                self.uploads.give_up(epoch)
            case do.FreeNames(epoch, successors):
                self.subtasks.committed(epoch, successors)
            case do.StartSubtasks():
                self.subtasks.start()
            case do.FinishSubtasks():
                self._auditor.leaves()
                self.subtasks.finish()
            case _:
                raise AssertionError(effect)

    def _answer(self, delay_ms: int, outcome: Callable[[], Event]) -> None:
        """The effect takes so long; events wait meanwhile, and what comes of it waits behind them."""
        self._executing = True

        def done() -> None:
            self._executing = False
            event = outcome()
            if isinstance(event, EffectFailed):
                self._queue.appendleft(event)
                self._pump()
            else:
                self.put(event)

        self.after(delay_ms, done)

    def _open(self, effect: do.LoadPlan | do.Connect | do.OpenSubtasks) -> None:
        delay_ms = self.world.between(2, 500)
        match effect:
            case do.LoadPlan():
                self._answer(delay_ms, self._planned)
            case do.Connect():
                self._answer(delay_ms, self._connected)
            case do.OpenSubtasks():
                hangs = self.world.happens(self._worker.hangs)
                self._answer(HANGS_MS if hangs else delay_ms, self._opened)

    def _planned(self) -> Event:
        assert self._deploy is not None, "something was deployed"
        self.subtasks = Subtasks(self, self._worker, Deployment.from_bytes(self._deploy.deployment))
        return Planned(TASKS, REPORT_MS)

    def _connected(self) -> Event:
        self.uploads = Uploads(self, self._worker, len(TASKS), self.put)
        self.linked = True
        return Connected()

    def _opened(self) -> Event:
        assert self.subtasks is not None and self.uploads is not None, "it is connected"
        failure = self.subtasks.open()
        self.uploads.chunks = self.subtasks.reused
        return SubtasksOpened() if failure is None else EffectFailed(failure)

    def snapshotted(self, epoch: int, snapshot: Snapshot) -> None:
        """A barrier has passed a subtask."""
        assert self.uploads is not None, "there is an uploader before a subtask runs"
        self.uploads.snapshotted(epoch, snapshot)

    # ---- leaving -------------------------------------------------------------------------------------------------

    def _leave(self, effect: do.JoinSubtasks | do.StopUploader | do.CloseParts) -> None:
        subtasks = self.subtasks
        match effect:
            case do.JoinSubtasks(timeout_ms):
                late_ms = 0 if subtasks is None else subtasks.late_ms
                joined = lambda: SubtasksJoined(() if subtasks is None else subtasks.late)  # noqa: E731 - one word
                self._answer(min(timeout_ms, late_ms), joined)
            case do.StopUploader(timeout_ms):
                self._stop_uploads(timeout_ms)
            case do.CloseParts():
                errors = ("a part does not close",) if self.world.happens(0.05) else ()
                self._answer(0, lambda: PartsClosed(errors))

    def _stop_uploads(self, timeout_ms: int) -> None:
        uploads = self.uploads
        self._auditor.stops_uploads()
        if uploads is None:
            self.put(UploaderJoined(late=False))
            return
        self._executing = joining = True

        def joined() -> None:
            nonlocal joining
            if joining:
                self._executing = joining = False
                self.put(UploaderJoined(uploads.busy))

        self.after(timeout_ms, joined)
        uploads.stop(joined)

    def _say(self, word: FromSlot) -> None:
        if self.orphaned:
            # its lease is over: it ends before the word is out
            self.leave()
            return
        self._auditor.says(word)
        self._worker.slot_said(self, word)
        if isinstance(word, Left | Failed):
            self.after(self.world.between(1, 50), self.leave)

    def crash(self) -> None:
        """A row makes the process end by a signal that it raises."""
        self.world.tell(f"{self.name}: crashes")
        self.ending = Failure(f"slot {self.name}: {CRASH}", "internal", retry=True)
        self.leave()

    def leave(self) -> None:
        """The process ends."""
        if self.alive:
            self.kill()
            self._worker.slot_ended(self)
            if self.linked:
                self._worker.slot_lost(self)

    # ---- the lease -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.orphaned:
            self.leave()
        self.after(self.world.between(LEASE_MS // 2, LEASE_MS), self._look)

    @property
    def orphaned(self) -> bool:
        """Whether its supervisor is gone, or stands still for the lease."""
        worker = self._worker
        return not worker.alive or (worker.frozen and self.world.now_ms - worker.frozen_ms >= LEASE_MS)
