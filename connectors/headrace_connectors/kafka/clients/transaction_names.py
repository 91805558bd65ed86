"""The transactional ids of headrace: `headrace-<job>-<sink>-<attempt mod 64>-<subtask>-<lane>`. Pure.

The set of names is bounded: a name is reused once its transaction is committed. A name contains the attempt. Otherwise
a writer of an earlier attempt that was suspended could register the name of a newer writer when it continues, and the
broker would abort that writer's prepared transaction. A job needs only an ACL for the prefix `headrace-` (WRITE on
TransactionalId).
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "headrace"
ATTEMPTS = 64
"""Attempts whose numbers differ by this have the same names. No writer of the earlier attempt lives that long."""
LANES = 3
"""Names (lanes) per writer: one open, one prepared, one spare. `lanes_of` adds one for each checkpoint that may fail in
a row."""


@dataclass(frozen=True, slots=True)
class TransactionName:
    """A name by its parts. `attempt`: modulo 64."""

    job: str
    sink: str
    attempt: int
    subtask: int
    lane: int

    def __str__(self) -> str:
        return f"{job_prefix(self.job)}{self.sink}-{self.attempt}-{self.subtask}-{self.lane}"

    def successor(self, lanes: int) -> TransactionName:
        """The name that replaces this one before its producer epochs are exhausted. lanes: number of names per
        writer."""
        return TransactionName(self.job, self.sink, self.attempt, self.subtask, self.lane + lanes)


def job_prefix(job: str) -> str:
    """The prefix of a job's names; of all jobs' names if `job` is empty."""
    return f"{PREFIX}-{job}-" if job else f"{PREFIX}-"


def lanes_of(tolerable_failures: int) -> int:
    """Number of names per writer."""
    return LANES + tolerable_failures


def names_of(job: str, sink: str, attempt: int, subtask: int, lanes: int) -> tuple[TransactionName, ...]:
    """The initial names of one writer."""
    return tuple(TransactionName(job, sink, attempt % ATTEMPTS, subtask, lane) for lane in range(lanes))


def parsed(name: str) -> TransactionName | None:
    """The parts of a name, or None for a foreign name."""
    # a job id may contain dashes and a sink's name may not, so the sink is the last part of the rest
    head, *numbers = name.rsplit("-", 3)
    prefix, _, rest = head.partition("-")
    job, _, sink = rest.rpartition("-")
    if prefix != PREFIX or not job or not sink or len(numbers) != 3 or not all(each.isdecimal() for each in numbers):
        return None
    attempt, subtask, lane = (int(each) for each in numbers)
    return TransactionName(job, sink, attempt, subtask, lane)
