"""Files that a job keeps over attempts: those that the running attempt may name stay, and no other ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.job_folder.orphans import delete_orphans, find_orphans
from headrace.checkpoint.journal.journal import Journal, Written, own_files
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.paths import STATE, state_path
from support.storage.checkpoints import attempt, checkpoint, committed, history
from support.storage.memory_store import MemoryStore

A, B = state_path(1, 1, "hourly", 0, "aa"), state_path(1, 1, "hourly", 0, "bb")
C = state_path(2, 2, "hourly", 0, "cc")
RESTORED: list[Record] = [attempt(1), checkpoint(1, files=[A, B]), committed(1), attempt(2, 1)]


def store_of(*paths: str) -> MemoryStore:
    store = MemoryStore()
    for path in paths:
        store.write(path, b"12345")
    return store


def test_what_an_attempt_has_restored_is_kept_until_it_has_completed_a_checkpoint() -> None:
    journal = history(*RESTORED)
    assert journal.prunable(1).files == ()
    assert find_orphans(store_of(A, B, C), journal, 0, 0).paths == ()


def test_then_only_what_a_retained_checkpoint_names() -> None:
    journal = history(*RESTORED, checkpoint(2, 2, files=[A, C]), committed(2))
    assert journal.prunable(2).files == ()
    assert journal.prunable(1).files == (B,)
    pruned = journal.pruned(journal.prunable(1))
    assert find_orphans(store_of(A, B, C), pruned, 0, 0).paths == (B,), "it could not be deleted at once"


def test_what_was_written_after_the_restored_checkpoint_is_an_orphan() -> None:
    lost = state_path(1, 2, "hourly", 0, "dd")
    assert find_orphans(store_of(A, B, lost), history(*RESTORED), 0, 0).paths == (lost,)


@dataclass
class Job:
    """A job whose slot names files: those of the newest checkpoint, and new ones."""

    journal: Journal = field(default_factory=Journal)
    store: MemoryStore = field(default_factory=MemoryStore)
    named: set[str] = field(default_factory=set)
    attempt: int = 0
    epoch: int = 0
    files: int = 0

    def put(self, draft: Record) -> None:
        """Appends a record."""
        verdict = self.journal.on_put(self.journal.next(draft, "one"), None, ())
        assert isinstance(verdict, Written)
        self.journal = verdict.journal

    def begin(self, *, back: bool) -> None:
        """The next attempt goes on from the newest checkpoint; back: from the one before, if there is one."""
        checkpoints = self.journal.checkpoints
        restored = checkpoints[-2 if back and len(checkpoints) > 1 else -1].manifest if checkpoints else None
        self.named = set() if restored is None else own_files(restored)
        self.attempt += 1
        self.put(attempt(self.attempt, None if restored is None else restored.epoch))

    def checkpoint(self, keep: set[int], *, complete: bool) -> None:
        """The slot drops files and writes others; the epoch may be given up after that."""
        self.epoch += 1
        self.named = {path for number, path in enumerate(sorted(self.named)) if number % 5 in keep}
        for _ in range(self.epoch % 3):
            self.files += 1
            path = state_path(self.attempt, self.epoch, "hourly", 0, f"{self.files:x}")
            self.store.write(path, b"12345")
            self.named.add(path)
        if complete:
            self.put(checkpoint(self.epoch, self.attempt, files=sorted(self.named)))
            self.put(committed(self.epoch))

    def collect(self, retained: int) -> None:
        """Deletes what is to be deleted."""
        gone = self.journal.prunable(retained)
        self.store.delete(gone.files)
        self.journal = self.journal.pruned(gone)
        delete_orphans(self.store, self.journal, 0, 0)


Steps = list[tuple[str, set[int]]]


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "back", "complete", "given up", "collect"]), st.sets(st.integers(0, 4)))
    ),
    st.integers(1, 3),
)
def test_no_file_that_the_attempt_may_name_is_deleted_and_no_other_one_stays(steps: Steps, retained: int) -> None:
    job = Job()
    job.begin(back=False)
    for step, keep in steps:
        match step:
            case "begin" | "back":
                job.begin(back=step == "back")
            case "collect":
                # only behind a checkpoint that is committed
                if job.journal.checkpoints:
                    job.collect(retained)
            case _:
                job.checkpoint(keep, complete=step == "complete")
        assert job.named <= set(job.store.list(STATE)), step
    job.begin(back=False)
    job.checkpoint({0, 1, 2, 3, 4}, complete=True)
    job.collect(1)
    assert set(job.store.list(STATE)) == job.named
