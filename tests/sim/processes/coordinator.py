"""A coordinator process with one job: a real machine and slot pool, and a driver that does what `JobDriver` does."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import delete_orphans
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written
from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, Manifest
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.config import Beginning
from headrace.coordinator.job.effects import failure_event
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.journaling import WriteRecord, draft_of, journal_read
from headrace.coordinator.job.machine import Machine
from headrace.coordinator.provisioning.slot_pool import Changed, Grant, PooledSlot, SlotPool
from headrace.core.errors import HeadraceError
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import (
    Acked,
    CancelSlot,
    Declined,
    Deploy,
    Deployed,
    Failed,
    Failure,
    FromSlot,
    InputEnded,
    Left,
    SlotInfo,
    Status,
    ToSlot,
    TriggerEpoch,
)
from sim.external.storage import Lane
from sim.names import JOB
from sim.processes.host import Host
from sim.processes.subtasks import Deployment
from sim.world import Process, ViolationError

if TYPE_CHECKING:
    from sim.cluster import Cluster
    from sim.processes.worker import Session, Worker

CHECK_MS = 1_000
WORKER_LOST_MS = 15_000
CANCEL_MS = 35_000
_TREACHEROUS = (do.Describe, do.Commit, do.Fence, do.Sweep)
_CERTAIN = (do.ReleaseSlots, do.Answer, do.RecordException, do.Alarm, do.Entered, do.Ended, do.CloseHost)
"""Effects whose driver does not let them fail: the fleet gives back what is released whatever happens."""
STOP_SLACK_MS = 1_000
ORPHANED_MS = 20_000
"""Age of orphans; shorter than in a real coordinator, where it must exceed what a file takes to be written."""
TICKS_MAX = 20
"""Ticks at one moment."""


class Coordinator(Process):
    """One run of the coordinator."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.world, name)
        self._cluster = cluster
        # another one than the first has been told of a job that was accepted a while ago
        beginning = Beginning.RESUMED if cluster.coordinators else Beginning.SUBMITTED
        self.machine = Machine(replace(cluster.config, beginning=beginning))
        self._events: deque[on.Event] = deque()
        self._pumping = False
        self._timer = 0
        self._ticks = (0, 0)
        self._pool = SlotPool()
        self._sessions: dict[str, Session] = {}
        self._slots: tuple[PooledSlot, ...] = ()
        self._ended: frozenset[str] = frozenset()
        """Slots of the newest attempt that were released."""
        self._granted_for = 0
        self._deployed = False
        self._retiring: dict[int, set[str]] = {}
        self._releases = 0
        self._lane = Lane(self, cluster.storage)
        self._journal = JournalStore(self._lane.store, "", name)
        self._host = Host(self, cluster)
        self._woken_ms = 0
        self.asked: dict[str, on.Event] = {}
        """What users wait for."""
        self.over: JobState | None = None
        self.checked()
        self._arm()

    # ---- the loop ------------------------------------------------------------------------------------------------

    def post(self, event: on.Event) -> None:
        """Tells the machine."""
        self._events.append(event)
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            self.after(0, self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self.over is not None:
            return
        if self._events:
            self._handle(self._events.popleft())
        elif (due_ms := self.machine.due_ms) is not None and due_ms <= self.world.now_ms:
            self._count_tick()
            self._handle(on.Tick())
        self._arm()

    def _arm(self) -> None:
        """Sees to it that it is called again when there is something to do."""
        if self.over is not None:
            return
        due_ms = self.machine.due_ms
        if self._events or (due_ms is not None and due_ms <= self.world.now_ms):
            self._pump_soon()
            return
        self._timer += 1
        if due_ms is not None:
            self.after(due_ms - self.world.now_ms, partial(self._on_timer, self._timer))

    def _on_timer(self, timer: int) -> None:
        if timer == self._timer:
            self._pump_soon()

    def _count_tick(self) -> None:
        at_ms, count = self._ticks
        self._ticks = (at_ms, count + 1) if at_ms == self.world.now_ms else (self.world.now_ms, 1)
        if self._ticks[1] > TICKS_MAX:
            raise ViolationError(f"{self.machine.state} is due again and again")

    def _handle(self, event: on.Event) -> None:
        before = self.machine.state
        live = before in {JobState.RUNNING, JobState.STOPPING}
        if self.over is None and self.world.happens(self._cluster.story.unforeseen / 10):
            self._abandon()
            return
        effects = self.machine.handle(event, self.world.now_ms)
        if isinstance(event, on.SlotFailed | on.CauseFound):
            attempt = event.attempt if isinstance(event, on.CauseFound) else self._granted_for
            self._cluster.auditor.poison.failed(self.name, attempt, event.failure)
        if not isinstance(event, on.Tick) or effects:
            self.world.tell(f"{self.name}: {_short(event)} in {before.value}")
        for effect in effects:
            if isinstance(effect, do.Entered) and effect.state is JobState.FINISHED:
                self._cluster.auditor.ended_in_order |= live
            self._perform(effect)
            if isinstance(effect, _TREACHEROUS) and self.world.happens(self._cluster.story.treachery):
                self._cluster.betray()

    def _perform(self, effect: do.Effect) -> None:
        if isinstance(effect, _CERTAIN) or not self.world.happens(self._cluster.story.unforeseen):
            self._do(effect)
            return
        done = self.world.happens(0.5)
        self.world.tell(f"{self.name}: {type(effect).__name__} raises{', when it is done' if done else ''}")
        if done:
            self._do(effect)
        event = failure_event(effect, Failure("nobody foresaw it", "internal", retry=True))
        if event is not None:
            self.after(self.world.delay_ms(), lambda: self.post(event))

    def _abandon(self) -> None:
        """The machine has failed: it is not asked again."""
        self.world.tell(f"{self.name}: its master fails")
        for request in tuple(self.asked):
            self._answer(do.Answer(request, failure=Failure("its master failed", "internal", retry=True)))
        self._events.clear()
        self._release()
        self._end(do.Ended(JobState.SUSPENDED, None, None, {}))

    def kill_host(self) -> None:
        """The connector host's process dies."""
        self._host.kill()

    # ---- users ---------------------------------------------------------------------------------------------------

    def ask(self, request: str, event: on.Event) -> None:
        """A user wants something."""
        if self.over is None:
            self.world.tell(f"{self.name}: {_short(event)}")
            self.asked[request] = event
            self.deliver(lambda: self.post(event) if self.over is None else self._handle(event))
            if isinstance(event, on.StopAsked):
                self._watch_stop(request, self.world.now_ms)

    def _watch_stop(self, request: str, since_ms: int) -> None:
        """A stop is answered within its bound, whatever fails: that of a process which is not asleep."""

        def look() -> None:
            if request not in self.asked:
                return
            if self._woken_ms > since_ms:
                self._watch_stop(request, self._woken_ms)
                return
            raise ViolationError(f"{request}, a stop, is not answered: the job is {self.machine.state.value}")

        self.after(self.machine.config.stop_timeout_ms + STOP_SLACK_MS, look)

    def wake(self) -> None:
        """SIGCONT."""
        if self.frozen:
            self._woken_ms = self.world.now_ms
        super().wake()

    def _answer(self, answer: do.Answer) -> None:
        event = self.asked.pop(answer.request, None)
        if event is None:
            raise ViolationError(f"{answer.request} is answered, but nobody waits for that")
        said = "done" if answer.failure is None else f"failed: {answer.failure.message}"
        self.world.tell(f"{self.name}: answers {answer.request}: {said}")
        if answer.failure is None:
            self._cluster.auditor.answered(event, answer.path, answer.note)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _do(self, effect: do.Effect) -> None:  # noqa: PLR0912 - one line an effect
        match effect:
            case do.ReadJournal(ticket):
                loaded = partial(self._on_loaded, ticket)
                self._lane.put("read", self._journal.load, loaded, self._on_storage_failed)
            case (
                do.WriteAttempt() | do.WriteCheckpoint() | do.WriteCommitted() | do.WriteStopping() | do.WriteFinished()
            ):
                self._append(effect)
            case do.RequestSlots(attempt, count):
                self._grant(self._pool.request(JOB, attempt, count))
            case do.ReleaseSlots():
                self.after(0, self._release)
            case do.OpenHost(known):
                self._host.open(known)
            case do.Discover():
                self._host.discover()
            case do.DeploySlots():
                self._deploy(effect)
            case do.Send(index, told):
                self._tell(self._slots[index], told)
            case do.SendAll(told):
                for slot in self._slots:
                    self._tell(slot, told)
                if isinstance(told, TriggerEpoch) and self.world.happens(self._cluster.story.treachery):
                    self._cluster.betray()
            case do.Commit(epoch, committables):
                self._host.commit(epoch, committables)
            case do.Describe(epoch, committables):
                self._host.describe(epoch, committables)
            case do.Fence(attempt, names):
                self._host.fence(attempt, names)
            case do.Sweep(attempt):
                self._host.sweep(attempt)
            case do.Alarm(text):
                self.world.tell(f"{self.name}: alarm: {text}")
            case do.WriteSavepoint(manifest, folder):
                self._save(manifest, folder)
            case do.Prune(retained):
                self._lane.put("prune", partial(self._prune, retained), _nothing, _nothing)
            case do.Answer():
                self._answer(effect)
            case do.RecordException(_, failure, follows):
                self._cluster.auditor.notes.add(failure.message)
                self.world.tell(f"{self.name}: {failure.message}; {follows}")
            case do.Entered(state, _):
                self.world.tell(f"{self.name}: -> {state.value}")
                self._cluster.auditor.ended_early |= self.machine.job.ended_early
                if state in {JobState.CANCELLING, JobState.FAILING, JobState.SUSPENDED}:
                    self._lane.hurry()
            case do.Ended():
                self._end(effect)
            case do.CloseHost():
                pass

    def _end(self, ended: do.Ended) -> None:
        self.over = ended.state
        self._lane.hurry(0)
        self._host.close()
        # what came too late for the machine's states is refused by its last one
        while self._events:
            self._handle(self._events.popleft())
        if self.asked:
            raise ViolationError(f"the job is {ended.state.value}, and nobody has answered {', '.join(self.asked)}")
        if ended.state is JobState.FINISHED and self._deployed:
            self._retire(self._granted_for, self._slots, cancel=False)
        self._cluster.ended(self, ended)

    # ---- journal -------------------------------------------------------------------------------------------------

    def _append(self, effect: WriteRecord) -> None:
        draft = draft_of(effect, self.world.now_ms)
        done = partial(self._on_put, effect.ticket)
        self._lane.put(draft.kind, partial(self._journal.append, draft), done, self._on_storage_failed)

    def _on_put(self, ticket: int, verdict: object) -> None:
        match verdict:
            case Written():
                self.post(on.RecordWritten(ticket))
            case Settled():
                self.post(on.JournalFailed(Failure("an earlier record stands after all", "external", retry=True)))
            case JournalReplaced():
                self.post(on.Replaced(verdict.reason))
            case _:
                raise AssertionError(verdict)

    def _on_loaded(self, ticket: int, journal: object) -> None:
        assert isinstance(journal, Journal)
        self.post(journal_read(ticket, journal))

    def _on_storage_failed(self, error: HeadraceError) -> None:
        self.post(on.JournalFailed(failure_of(error)))

    def _prune(self, retained: int) -> None:
        """As `JobJournal` does it, but orphans are collected each time, and at one moment: what the journal was read
        from may be long past by then."""
        if self._journal.prune(retained) is not None:
            objects = self._cluster.storage.objects
            delete_orphans(objects, self._journal.journal, self.world.now_ms, ORPHANED_MS)

    def _save(self, manifest: Manifest, folder: str) -> None:
        store, data = self._lane.store, manifest.model_dump_json().encode()
        self._lane.put(
            "savepoint",
            lambda: store.write(f"{folder}/manifest.json", data),
            lambda _: self.post(on.SavepointWritten(manifest.epoch)),
            lambda error: self.post(on.SavepointFailed(manifest.epoch, failure_of(error))),
        )

    # ---- slots ---------------------------------------------------------------------------------------------------

    def _tell(self, slot: PooledSlot, told: ToSlot) -> None:
        session = self._sessions.get(slot.worker)
        if session is not None:
            session.down.send(lambda: session.worker.tell_slot(slot.slot, told))

    def _kill(self, worker: str, slot: str) -> None:
        session = self._sessions.get(worker)
        if session is not None:
            session.down.send(lambda: session.worker.kill_slot(slot))

    def _deploy(self, wanted: do.DeploySlots) -> None:
        self._cluster.auditor.deployed(wanted)
        self._cluster.auditor.poison.deployed(self.name, wanted.attempt)
        states = () if wanted.restore is None else wanted.restore.states
        files = [part for handle in states for part in handle.files]
        row_groups = tuple((part.path, number) for part in files for number in part.row_groups)
        self._deployed = True
        for index, slot in enumerate(self._slots):
            self._tell(slot, Deploy(JOB, wanted.attempt, "", Deployment(index, row_groups, wanted.reused).to_bytes()))

    def _release(self) -> None:
        self._grant(self._pool.cancel_request(JOB))
        slots, attempt = self._slots, self._granted_for
        self._slots, self._ended = (), frozenset(each.slot for each in slots)
        if slots and self._deployed:
            self._retire(attempt, slots, cancel=True)
            return
        if slots:
            self._grant(self._pool.release_attempt(JOB, attempt, deployed=False))
        self._releases += 1
        self._retired()

    def _retire(self, attempt: int, slots: tuple[PooledSlot, ...], *, cancel: bool) -> None:
        present = {slot.slot for slot in slots if slot.slot in {each.slot for each in self._pool.held_by(JOB, attempt)}}
        self._retiring[attempt] = present
        if cancel:
            for slot in slots:
                self._tell(slot, CancelSlot())
        self.after(CANCEL_MS, lambda: self._kill_late(attempt, slots))
        self._retired()

    def _kill_late(self, attempt: int, slots: tuple[PooledSlot, ...]) -> None:
        late = self._retiring.get(attempt)
        if late is None:
            return
        for slot in slots:
            if slot.slot in late:
                self._kill(slot.worker, slot.slot)
        self.after(5_000, lambda: self._retire_anyway(attempt))

    def _retire_anyway(self, attempt: int) -> None:
        if attempt in self._retiring:
            self._retiring[attempt] = set()
            self._retired()

    def _retired(self) -> None:
        for attempt in [each for each, left in self._retiring.items() if not left]:
            del self._retiring[attempt]
            self._grant(self._pool.release_attempt(JOB, attempt))
            self.post(on.SlotsReleased())
        # a release without slots is done when those before it are
        while self._releases and not self._retiring:
            self._releases -= 1
            self.post(on.SlotsReleased())

    # ---- workers -------------------------------------------------------------------------------------------------

    def joined(self, session: Session, places: int, idle: tuple[SlotInfo, ...], busy: tuple[SlotInfo, ...]) -> None:
        """A worker has registered."""
        name = session.worker.name
        self._sessions[name] = session
        self._changed(self._pool.register(name, name, 0, places, idle, busy), name)

    def leaving(self, worker: str) -> None:
        """A worker is going to end."""
        leaving = self._pool.leave(worker)
        for held in leaving.held:
            index = next((index for index, each in enumerate(self._slots) if each.slot == held.slot), None)
            if index is not None and held.attempt == self._granted_for and self.over is None:
                self.post(on.SlotLeaving(index, worker))
        self._grant(leaving.grants)

    def slot_up(self, worker: Worker, info: SlotInfo) -> None:
        """A slot is ready."""
        self._changed(self._pool.slot_up(worker.name, info), worker.name)

    def slot_down(self, slot: str, ending: Failure) -> None:
        """A slot has ended."""
        self._gone(slot)
        self._changed(self._pool.slot_down(slot), "", ending)

    def slot_said(self, slot: str, said: FromSlot) -> None:
        """A slot spoke; words of an older attempt are dropped."""
        index = next((index for index, each in enumerate(self._slots) if each.slot == slot), None)
        if index is None or said.attempt != self._granted_for or self.over is not None:
            return
        match said:
            case Deployed():
                self.post(on.SlotDeployed(index))
            case InputEnded():
                self.post(on.SlotInputEnded(index))
            case Acked(epoch=epoch, subtasks=subtasks):
                self.post(on.SlotAcked(index, epoch, SUBTASK_DOCUMENTS.validate_json(subtasks)))
            case Declined(epoch=epoch, failure=failure):
                self.post(on.SlotDeclined(index, epoch, failure))
            case Failed(failure=failure):
                self.post(on.SlotFailed(index, failure))
            case Left() | Status():
                pass
            case _:
                assert_never(said)

    def checked(self) -> None:
        """Looks for workers that were not heard of for too long."""
        for name, session in list(self._sessions.items()):
            late = self.world.now_ms - session.heard_by_coordinator_ms >= WORKER_LOST_MS
            if late or session.closed or not session.worker.alive:
                session.cut()
                del self._sessions[name]
                self._changed(self._pool.worker_lost(name), name)
        self.after(CHECK_MS, self.checked)

    def _changed(self, changed: Changed, worker: str, ending: Failure | None = None) -> None:
        self._pool.validate()
        for slot in changed.strangers:
            self._kill(worker, slot)
        for lost in changed.lost:
            self._gone(lost.slot)
            if lost.attempt != self._granted_for or self.over is not None:
                continue
            failure = ending or Failure(f"slot {lost.slot} is lost", "external", retry=True)
            failure = replace(failure, worker=lost.worker)
            index = next((index for index, each in enumerate(self._slots) if each.slot == lost.slot), None)
            if index is not None:
                self.post(on.SlotFailed(index, failure))
            elif lost.slot in self._ended and failure.domain != "external":
                self.post(on.CauseFound(lost.attempt, failure))
        self._grant(changed.grants)

    def _gone(self, slot: str) -> None:
        for left in self._retiring.values():
            left.discard(slot)
        self._retired()

    def _grant(self, grants: tuple[Grant, ...]) -> None:
        for grant in grants:
            self._slots, self._granted_for, self._deployed = grant.slots, grant.attempt, False
            self.post(on.SlotsGranted(grant.attempt, tuple(slot.worker for slot in grant.slots)))


def _nothing(_: object) -> None:
    """What is done when pruning is done, or failed."""


def _short(event: on.Event) -> str:
    names = ("index", "epoch", "attempt", "request", "ticket")
    told = [f"{name} {getattr(event, name)}" for name in names if hasattr(event, name)]
    failure = getattr(event, "failure", None)
    return " ".join([type(event).__name__, *told, *([] if failure is None else [failure.message])])
