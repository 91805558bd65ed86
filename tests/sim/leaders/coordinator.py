"""A coordinator process: the real candidacy and the real ledger store, and a shell as `coordinator.leading` has it.

Its store calls take virtual time: it may be suspended or killed between any two of them. One call of the ledger is
under way at a time, as the job store's lock has it.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger.ledger import Ledger
from headrace.coordinator.ledger.records import Change, Discarded, Ended, Forgotten, HistoryKept, JobResult, Submitted
from headrace.coordinator.store.ledger_store import LedgerReplacedError, LedgerStore
from headrace.core.errors import ExternalError
from headrace.leadership.candidacy.candidacy import (
    Candidacy,
    CandidacyEvent,
    GiveUp,
    Hold,
    Lead,
    Replaced,
    Resume,
    Standing,
    StorageLost,
)
from headrace.leadership.elector import ElectorEvent, Leader
from sim.drivers.storage import DriversStore
from sim.leaders.election import Session
from sim.leaders.story import SLOW_MS_MAX
from sim.replayed import Answer, Call, Pending, Replayer
from sim.world import Process, ViolationError

if TYPE_CHECKING:
    from sim.leaders.cluster import Cluster

WATCH_MS = 5_000
RETRY_MS = 1_000
STORAGE_LOST_MS = 60_000
RESTART_MS = 500
ENDED_MAX = 3
LEDGER = "ledger"
Done = Callable[[Ledger | ExternalError], None]


@dataclass(frozen=True, slots=True)
class _Work:
    """A call of the ledger store, and what follows from it."""

    call: Callable[[LedgerStore], Ledger | None]
    done: Done


class Coordinator(Process):
    """One run of one coordinator."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.world, name)
        self._cluster = cluster
        self.candidacy = Candidacy(has_standbys=True)
        self.cut_from_election_ms = self.cut_from_storage_ms = 0
        self.clock_ms = 0
        self.trust = cluster.story.trust
        self.term = 0
        self.is_holding = False
        self._replayer = Replayer()
        self._store = LedgerStore(self._reached(), name, self)
        self._work: deque[_Work] = deque()
        self._is_busy = False
        self._reached_ms = 0
        self._submitting: set[str] = set()
        self.session = Session(self, cluster.election, cluster.story.lease_ms)

    @property
    def is_cut_from_election(self) -> bool:
        """Whether the network to the election is cut."""
        return self.world.now_ms < self.cut_from_election_ms

    @property
    def leads(self) -> bool:
        """Whether it acts as the leader."""
        return self.alive and self.term > 0 and self.candidacy.standing in {Standing.LEADING, Standing.HOLDING}

    @property
    def ledger(self) -> Ledger:
        """As it knows it."""
        return self._store.ledger

    def now_ms(self) -> int:
        """Its wall clock, which may jump: the same whenever a call runs again."""
        return self._replayer.note(lambda: self.world.now_ms + self.clock_ms)

    def monotonic_ms(self) -> int:
        """Not used by the ledger."""
        return self.now_ms()

    def wake(self) -> None:
        """SIGCONT: its threads run in any order, so an answer of storage may come before the end of its session."""
        self.world.chance.shuffle(self._waiting)
        super().wake()

    # ---- leadership --------------------------------------------------------------------------------------------------

    def on_election(self, event: ElectorEvent) -> None:
        """An event of the election, or of the ledger."""
        self._on(event)

    def _on(self, event: CandidacyEvent) -> None:
        effect = self.candidacy.on(event)
        if effect is not None:
            self.world.tell(f"{self.name}: {effect}")
        match effect:
            case None:
                pass
            case Lead():
                self._take_over()
            case Hold():
                self.is_holding = True
            case Resume():
                self.is_holding = False
            case GiveUp():
                self._give_up()
            case _:
                assert_never(effect)

    def _take_over(self) -> None:
        def taken(result: Ledger | ExternalError) -> None:
            if self.candidacy.standing is Standing.OVER:
                return
            if isinstance(result, ExternalError):
                self.after(RETRY_MS, self._take_over)
                return
            self.term = result.head
            self._reached_ms = self.world.now_ms
            self.world.tell(f"{self.name} leads in term {self.term}")
            self._cluster.auditor.led(self)
            self.session.publish(Leader(f"http://{self.name}", self.name, self.term))
            self.after(WATCH_MS, self._watch)

        self._ask(lambda store: store.take_over(self._is_elected), taken)

    def _is_elected(self) -> bool:
        return bool(self._replayer.ask(self.session.ask))

    def _give_up(self) -> None:
        """It becomes another process, which is a standby."""
        self.session.close()
        self._cluster.restart(self, RESTART_MS)
        self.kill()

    def _watch(self) -> None:
        def watched(result: Ledger | ExternalError) -> None:
            if not isinstance(result, ExternalError):
                self._reached_ms = self.world.now_ms
            elif self.world.now_ms - self._reached_ms >= STORAGE_LOST_MS:
                self._on(StorageLost(result.message))

        def look(store: LedgerStore) -> None:
            store.require_own()

        self._ask(look, watched)
        self.after(WATCH_MS, self._watch)

    # ---- jobs --------------------------------------------------------------------------------------------------------

    def submit(self, job: str, name: str, answer: Callable[[bool], None]) -> None:
        """A user submits. answer: whether it is accepted."""
        if not self.leads or self.is_holding:
            answer(False)
            return
        if name in self._names():
            answer(False)
            return
        self._submitting.add(name)

        def written(result: Ledger | ExternalError) -> None:
            if isinstance(result, ExternalError):
                # it may be in the ledger all the same
                answer(False)
                self._discard(job, name)
                return
            self._submitting.discard(name)
            answer(True)

        self._append(written, Submitted(job=job, sealed=name))

    def _names(self) -> set[str]:
        return self._submitting | {each.sealed for each in self.ledger.jobs.values() if each.result is None}

    def _discard(self, job: str, name: str) -> None:
        def written(result: Ledger | ExternalError) -> None:
            if isinstance(result, ExternalError):
                self.after(RETRY_MS, lambda: self._discard(job, name))
            else:
                self._submitting.discard(name)

        self._append(written, Discarded(job=job))

    def end(self, job: str, answer: Callable[[bool], None]) -> None:
        """A user cancels a job. answer: whether it has ended."""
        known = self.ledger.jobs.get(job)
        if not self.leads or self.is_holding or known is None or known.result is not None:
            answer(False)
            return
        self._append(
            lambda result: answer(not isinstance(result, ExternalError)),
            Ended(job=job, result=JobResult(state="CANCELED", ended_at_ms=self.world.now_ms)),
        )

    def note_attempt(self, job: str) -> None:
        """A job's history grows."""
        known = self.ledger.jobs.get(job)
        if self.leads and known is not None and known.result is None:
            history = JobHistory(changes=known.history.changes + 1)
            self._append(lambda _result: None, HistoryKept(job=job, history=history))

    def forget(self) -> None:
        """The oldest ended jobs are not kept."""
        ended = [each for each in self.ledger.jobs.values() if each.result is not None]
        if self.leads and len(ended) > ENDED_MAX:
            job = ended[0].job
            self._cluster.auditor.forgotten(job)
            self._append(lambda _result: None, Forgotten(job=job))

    def _append(self, done: Done, *changes: Change) -> None:
        def append(store: LedgerStore) -> Ledger:
            return store.append(changes)

        def written(result: Ledger | ExternalError) -> None:
            done(result)
            if not isinstance(result, ExternalError):
                self._ask(lambda store: store.compact(), lambda _result: None)

        self._ask(append, written)

    # ---- the ledger, call by call ------------------------------------------------------------------------------------

    def _ask(self, call: Callable[[LedgerStore], Ledger | None], done: Done) -> None:
        self._work.append(_Work(call, done))
        self._next()

    def _next(self) -> None:
        if self._is_busy or not self._work:
            return
        self._is_busy = True
        self._replayer.forget()
        self._run(self._work.popleft())

    def _run(self, work: _Work) -> None:
        self._replayer.rewind()
        # a copy: what a call has changed before it stops must not be there when it begins again
        store = copy.copy(self._store)
        try:
            result: Ledger | ExternalError = work.call(store) or store.ledger
        except Pending as pending:
            pending.start(lambda answer: self._go_on(answer, work))
            return
        except LedgerReplacedError as error:
            self._finish(store, work, error)
            self._on(Replaced(error.message))
            return
        except ExternalError as error:
            result = error
        self._finish(store, work, result)

    def _go_on(self, answer: object, work: _Work) -> None:
        self._replayer.answered(answer)
        self._run(work)

    def _finish(self, store: LedgerStore, work: _Work, result: Ledger | ExternalError) -> None:
        self._store = store
        self._is_busy = False
        self._cluster.auditor.knows(self)
        work.done(result)
        if self.alive:
            self._next()

    def _reached(self) -> DriversStore:
        return DriversStore(LEDGER, self._cluster.objects, self._reach, self._replayer)

    def _reach(self, call: Call) -> object:
        return self._replayer.ask(lambda answer: self._start(call, answer))

    def _start(self, call: Call, answer: Answer) -> None:
        if self.world.now_ms < self.cut_from_storage_ms:
            error = ExternalError("storage cannot be reached", retry=True)
            self.after(RETRY_MS, lambda: answer(error))
        elif self.world.happens(self._cluster.story.slow):
            # on its way, whatever becomes of its sender
            if self.world.happens(self._cluster.story.treachery):
                self._cluster.mistreat(self)
            self.world.after(self.world.between(1, SLOW_MS_MAX), lambda: self._cluster.storage.call(self, call, answer))
        else:
            self._cluster.storage.call(self, call, answer)

    def check(self) -> None:
        """Raises ViolationError if it believes what cannot be."""
        if self.leads and self.term > self.ledger.head:
            raise ViolationError(f"{self.name} leads in term {self.term}, and its ledger ends at {self.ledger.head}")
