"""The epochs of a local job: `execution.epochs` with an acknowledgement from every subtask instead of every slot.

No state is uploaded, so a subtask acknowledges an epoch as soon as the barrier has passed it. The last epoch begins
when the input of every subtask has ended. `Reports` is the queue from the subtasks' threads to the thread that
supervises the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from headrace.checkpoint.manifest import CommittableDocument, SubtaskDocument
from headrace.execution.epochs import Epochs, Pending, Purpose
from headrace.spec.settings import Checkpoint
from headrace.worker.control import SubtaskSnapshot

SubtaskId = tuple[str, int]
"""Task name and subtask index."""


class SubtaskEpochs:
    """Tracks the epochs of one job by the reports of its subtasks. One thread calls it; others may read properties."""

    def __init__(self, subtasks: Iterable[SubtaskId], interval_ms: int | None, now_ms: int) -> None:
        self._numbers = {subtask: number for number, subtask in enumerate(subtasks)}
        settings = Checkpoint(interval_ms=interval_ms)
        self._epochs = Epochs(settings, slots=len(self._numbers), last_epoch=0, now_ms=now_ms)
        self.input_left = frozenset(self._numbers)
        """Subtasks that have not received the end of their input."""
        self.last_begun = False

    def take(self, report: Report) -> None:
        """Handles the report of a subtask."""
        match report:
            case SubtaskSnapshot(task, subtask, epoch):
                committables = tuple(CommittableDocument.of(item) for item in report.committables)
                document = SubtaskDocument(task=task, subtask=subtask, committables=committables)
                self._epochs.ack(self._numbers[task, subtask], epoch, (document,))
            case InputEnded(task, subtask):
                self.input_left -= {(task, subtask)}

    def begin_due(self, now_ms: int, *, stopping: bool) -> int | None:
        """Begins the epoch that is due and returns its number. `stopping`: only the last epoch may still begin."""
        if self._epochs.pending is not None or self.last_begun:
            return None
        self.last_begun = not self.input_left
        if self.last_begun:
            return self._epochs.begin(Purpose.FINAL, now_ms).epoch
        if not stopping and self._epochs.periodic_due(now_ms):
            return self._epochs.begin(Purpose.PERIODIC, now_ms).epoch
        return None

    @property
    def complete(self) -> Pending | None:
        """The epoch in flight, once its barrier has passed every subtask."""
        pending = self._epochs.pending
        return None if pending is None or pending.waiting else pending

    def committed(self, now_ms: int) -> None:
        """Ends the epoch in flight, whose output has been committed."""
        self._epochs.done(now_ms)

    @property
    def waiting(self) -> frozenset[SubtaskId]:
        """Subtasks that the barrier of the epoch in flight has not passed yet."""
        pending = self._epochs.pending
        numbers = set() if pending is None else set(pending.waiting)
        return frozenset(subtask for subtask, number in self._numbers.items() if number in numbers)


@dataclass(frozen=True, slots=True)
class InputEnded:
    """A subtask has received the end of its input."""

    task: str
    subtask: int


Report = SubtaskSnapshot | InputEnded


class Reports:
    """A queue of reports: the SubtaskEvents of a local job. Any thread adds, one thread removes.

    Bounded by the number of subtasks: each reports one snapshot for the epoch in flight, and one end of input.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Report | None] = SimpleQueue()

    def snapshotted(self, snapshot: SubtaskSnapshot) -> None:
        """A barrier has passed a subtask."""
        self._queue.put(snapshot)

    def input_ended(self, task: str, subtask: int) -> None:
        """EndOfInput has passed a subtask."""
        self._queue.put(InputEnded(task, subtask))

    def wake(self) -> None:
        """Makes `take` return."""
        self._queue.put(None)

    def take(self, timeout_ms: int) -> list[Report]:
        """All queued reports; waits at most `timeout_ms` for the first one or a `wake`."""
        taken: list[Report | None] = []
        try:
            taken.append(self._queue.get(timeout=timeout_ms / 1000))
            while True:
                taken.append(self._queue.get_nowait())
        except Empty:
            return [report for report in taken if report is not None]
