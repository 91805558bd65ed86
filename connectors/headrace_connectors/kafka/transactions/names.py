"""The names of our transactions: `headrace-<job>-<sink>-<attempt mod 64>-<subtask>-<lane>`. Pure.

A bounded set: a name is used again once its transaction is committed. The attempt in it keeps a writer of an earlier
attempt that wakes up late from taking over, and so aborting, what a newer one has prepared. An ACL for the prefix
`headrace-` (WRITE on TransactionalId) is all that a job needs.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "headrace"
ATTEMPTS = 64
"""Attempts so far apart share their names: far longer than any writer of the earlier one lives."""
LANES = 3
"""One transaction is open, one prepared, one spare; and one more for each checkpoint that may fail in a row."""


@dataclass(frozen=True, slots=True)
class TransactionName:
    """A name and whose it is. `attempt`: modulo 64."""

    job: str
    sink: str
    attempt: int
    subtask: int
    lane: int

    def __str__(self) -> str:
        return f"{job_prefix(self.job)}{self.sink}-{self.attempt}-{self.subtask}-{self.lane}"

    def successor(self, lanes: int) -> TransactionName:
        """The name that takes this one's place when its producer epochs run out."""
        return TransactionName(self.job, self.sink, self.attempt, self.subtask, self.lane + lanes)


def job_prefix(job: str) -> str:
    """What the names of a job begin with; of all jobs, where `job` is empty."""
    return f"{PREFIX}-{job}-" if job else f"{PREFIX}-"


def lanes_of(tolerable_failures: int) -> int:
    """How many names a writer has."""
    return LANES + tolerable_failures


def names_of(job: str, sink: str, attempt: int, subtask: int, lanes: int) -> tuple[TransactionName, ...]:
    """The names that one writer begins with."""
    return tuple(TransactionName(job, sink, attempt % ATTEMPTS, subtask, lane) for lane in range(lanes))


def parsed(name: str) -> TransactionName | None:
    """Whose transaction that is, or None: not one of ours."""
    head, *numbers = name.rsplit("-", 3)
    prefix, _, rest = head.partition("-")
    job, _, sink = rest.rpartition("-")
    if prefix != PREFIX or not job or not sink or len(numbers) != 3 or not all(each.isdecimal() for each in numbers):
        return None
    attempt, subtask, lane = (int(each) for each in numbers)
    return TransactionName(job, sink, attempt, subtask, lane)
