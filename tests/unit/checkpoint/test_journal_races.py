"""Several writers on one journal, interleaved at every call of the store, with refused puts and lost answers.

The store itself tells what the history is: a record that is put at exactly one above the highest there ever was
belongs to it; anything else that lands is the late put of a writer that was replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.job_folder.journal_store import JournalStore, parse_record
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, Record, StoppingRecord
from headrace.checkpoint.journal.resolve import resolve
from headrace.checkpoint.paths import JOURNAL, record_number
from headrace.core.errors import ExternalError
from support.storage.checkpoints import attempt, checkpoint, committed
from support.storage.memory_store import Fault, MemoryStore, ScheduledStore
from support.suite.properties import weighted

T = TypeVar("T")

WRITERS = 3
DEPTH_MAX = 2
"""Writers that act while another one is in the middle of a call."""


class World:
    """A store, its true history, and writers that act when they are told."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.truth: dict[int, Record] = {}
        self.acknowledged: list[int] = []
        self.shared = MemoryStore(self._landed)
        self.clock = 0
        self.depth = 0
        self.writers = [self._new_writer() for _ in range(WRITERS)]
        self.busy = [False] * WRITERS
        self.replaced = [False] * WRITERS

    def _new_writer(self) -> JournalStore:
        self.clock += 1
        store = ScheduledStore(self.shared, self._between, self._fault)
        return JournalStore(store, "", f"w{self.clock}")

    def _landed(self, path: str, data: bytes) -> None:
        number = record_number(path)
        if number is not None and number == max(self.truth, default=0) + 1:
            self.truth[number] = parse_record(data, path)

    def _draw(self, choices: st.SearchStrategy[T]) -> T:
        return self._data.draw(choices)

    def _fault(self) -> Fault:
        return self._draw(st.sampled_from([Fault.NONE, Fault.NONE, Fault.NONE, Fault.LOST, Fault.REFUSED]))

    def _between(self) -> None:
        if self.depth <= DEPTH_MAX and self._draw(st.integers(0, 5)) == 0:
            self.act()

    def act(self) -> None:
        """One writer, chosen by chance and idle, does one thing."""
        idle = [index for index, busy in enumerate(self.busy) if not busy]
        if not idle:
            return
        index = self._draw(st.sampled_from(idle))
        what: Callable[[int], None] = self._draw(
            st.sampled_from([self._append, self._append, self._recover, self._prune])
        )
        self.busy[index] = True
        self.depth += 1
        try:
            what(index)
        except ExternalError:
            pass  # the writer knows nothing more than before, and may try anything next
        finally:
            self.busy[index] = False
            self.depth -= 1

    def _recover(self, index: int) -> None:
        """A new coordinator: reads, and writes its attempt."""
        writer = self.writers[index] = self._new_writer()
        self.replaced[index] = False
        resolution = resolve(writer.load())
        restored = None if resolution.restore is None else resolution.restore.epoch
        self._put(index, attempt(resolution.next_attempt, restored))

    def _append(self, index: int) -> None:
        journal = self.writers[index].journal
        if journal.newest_attempt is None:
            return
        uncommitted = journal.uncommitted
        if uncommitted is not None:
            self._put(index, committed(uncommitted.manifest.epoch))
        elif self._draw(st.integers(0, 9)) == 0:
            self._put(index, StoppingRecord(at_ms=0))
        else:
            name = f"state/{journal.epoch + 1}-{index}-{self.clock}"
            self.shared.held[name] = b""
            self._put(index, checkpoint(journal.epoch + 1, journal.attempt, files=[name]))

    def _put(self, index: int, draft: Record) -> None:
        self.clock += 1
        verdict = self.writers[index].append(draft.model_copy(update={"at_ms": self.clock}))
        if isinstance(verdict, JournalReplaced):
            self.replaced[index] = True
            return
        assert isinstance(verdict, Written | Settled)
        assert not self.replaced[index], "a writer that was replaced went on"
        assert verdict.record.number > max(self.acknowledged, default=0), "two writers go on"
        assert verdict.record == self.truth[verdict.record.number], "two records have one number"
        self.acknowledged.append(verdict.record.number)

    def _prune(self, index: int) -> None:
        self.writers[index].prune(1)

    def check(self) -> None:
        """A reader that comes now finds the true history, and in it the newest complete checkpoint."""
        journal = JournalStore(self.shared, "", "reader").load()
        whole = [self.truth[number] for number in sorted(self.truth)]
        assert list(journal.records) == whole[len(whole) - len(journal.records) :]
        told, true = resolve(journal), resolve(Journal.load(whole))
        assert told.restore == true.restore
        assert (told.attempt, told.epoch) == (true.attempt, true.epoch)
        assert (told.stopping, told.stopped, told.commit_first) == (true.stopping, true.stopped, true.commit_first)
        if told.restore is not None:
            assert all(part.path in self.shared.held for state in told.restore.states for part in state.files)


@given(st.data())
@weighted(4)
def test_one_history_whatever_happens(data: st.DataObject) -> None:
    world = World(data)
    for _ in range(data.draw(st.integers(1, 25))):
        world.act()
        world.check()


def test_a_writer_that_slept_through_a_pruned_history_stops_and_leaves_nothing_that_counts() -> None:
    store = MemoryStore()
    sleeper, other = JournalStore(store, "job", "sleeper"), JournalStore(store, "job", "other")
    begun: list[Record] = [attempt(1), checkpoint(1), committed(1)]
    for draft in begun:
        assert isinstance(sleeper.append(draft), Written)
    other.load()
    drafts: list[Record] = [attempt(2, 1)]
    for epoch in range(2, 6):
        drafts += [checkpoint(epoch, 2), committed(epoch)]
    for draft in drafts:
        assert isinstance(other.append(draft), Written)
    other.prune(1)
    assert [record_number(path) for path in store.list(f"job/{JOURNAL}")] == [4, 11, 12]
    other.append(attempt(3, 5))
    other.append(checkpoint(6, 3))
    other.append(committed(6))
    other.prune(1)
    assert isinstance(sleeper.append(StoppingRecord(at_ms=0)), JournalReplaced)
    assert isinstance(sleeper.append(checkpoint(2)), JournalReplaced)
    assert sleeper.prune(1) is None
    assert "job/journal/00000004.json" in store.held, "the late record is there"
    journal = JournalStore(store, "job", "reader").load()
    assert journal.stopping is None
    assert [type(each) for each in journal.records[:1]] == [AttemptRecord]
    assert isinstance(journal.records[1], CheckpointRecord)
