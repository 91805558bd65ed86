"""The queue of reports from the threads of a local job's subtasks to the thread that supervises the job."""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue

from headrace.worker.control import SubtaskSnapshot


@dataclass(frozen=True, slots=True)
class InputEnded:
    """A subtask has received the end of its input."""

    task: str
    subtask: int


Report = SubtaskSnapshot | InputEnded


class Reports:
    """A queue of reports: the SubtaskEvents of a local job. Any thread puts, one thread takes.

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
