"""Interprets the brokers' responses about transactions. Pure: the committer sends requests, this module decides.

A transaction's states in DescribeTransactions:

    Empty ─> Ongoing ─┬─> PrepareCommit ─> CompleteCommit ─┐
      ^               └─> PrepareAbort ──> CompleteAbort ──┤
      └────────────────────── the next producer ───────────┘

Each transaction of headrace has a unique (producer id, producer epoch), because each has its own producer. So a
description with the same pair is of the same transaction, and not of a later one with the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace_connectors.kafka.clients.transaction_names import ATTEMPTS, TransactionName, parsed

ONGOING = "Ongoing"
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
ABORTED = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
UNSETTLED = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which a transaction blocks read_committed readers."""

NONE = 0
NOT_FOUND = 105
MOVED = frozenset({13, 14, 15, 16})
"""No connection; coordinator loading, not available, moved: find the coordinator again."""
_PASSING = MOVED | {-1, 7, 51, 56}
"""Transient errors: MOVED, unknown server error, timeout at the broker, markers of the previous transaction are pending
(CONCURRENT_TRANSACTIONS), disk error."""
_OTHERWISE_ENDED = frozenset({47, 48, 49, 90})
"""Invalid producer epoch or id, invalid state, fenced: the transaction is not open as it was described."""
DENIED = frozenset({31, 53})

RETIRE_EPOCH = 30_000
"""Producer epoch from which on a name is not reused. Producer epochs end at 32,766, and brokers had bugs close to that
limit."""


class Answer(StrEnum):
    """The reaction to an error code. LOOK: describe the transaction to find its outcome."""

    DONE = "done"
    RETRY = "retry"
    LOOK = "look"
    DENIED = "denied"
    UNKNOWN = "unknown"


class Fate(StrEnum):
    """The outcome of a transaction whose commit was decided.

    COMMITTED   it is committed
    LOST        it was aborted
    UNDECIDED   it is still open
    FORGOTTEN   the brokers do not know its name any more
    """

    COMMITTED = "committed"
    LOST = "lost"
    UNDECIDED = "undecided"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Described:
    """A transaction as its coordinator describes it. `started_at_ms`: -1 if no transaction is open."""

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    started_at_ms: int
    timeout_ms: int
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Undescribed:
    """The error code that a broker returned instead of a description: 105 (the name is unknown), or a permanent
    error."""

    name: str
    code: int

    @property
    def unknown(self) -> bool:
        """Whether the broker does not know the name."""
        return self.code == NOT_FOUND


Description = Described | Undescribed


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a decided transaction. `started_at_ms` 0: unknown."""

    producer_id: int
    producer_epoch: int
    started_at_ms: int = 0


def answer_to(code: int) -> Answer:
    """The reaction to an error code of EndTxn or InitProducerId."""
    if code == NONE:
        return Answer.DONE
    if code in _PASSING:
        return Answer.RETRY
    if code in _OTHERWISE_ENDED:
        return Answer.LOOK
    return Answer.DENIED if code in DENIED else Answer.UNKNOWN


def refusal(described: Description, topic: str) -> str | None:
    """The reason why a flushed transaction cannot be committed, or None."""
    if isinstance(described, Undescribed):
        return "the broker does not know its name: it never had a record, or its state was deleted"
    if described.state == ONGOING:
        if topic not in described.partitions:
            return (
                f"it is open, but has no record of topic {topic!r} that this login may see: the login lacks DESCRIBE "
                "on the topic, or another producer uses the name"
            )
        return None
    if described.state in ABORTED:
        return f"the broker aborted it: it was open for longer than transaction_timeout ({described.timeout_ms} ms)"
    if described.state == "Empty":
        return "another producer has taken its name and ended it (fenced)"
    if described.state in COMMITTED:
        return "another client committed it already"
    return "headrace does not know this state"


def fate(identity: Identity, described: Description) -> Fate:
    """The outcome of a transaction whose EndTxn(commit) failed with an error about its state.

    Brokers forget a name that was not used for a long time (7 days by default), after a commit as after an abort: then
    the outcome is unknown.
    """
    if isinstance(described, Undescribed):
        return Fate.FORGOTTEN
    if (described.producer_id, described.producer_epoch) != (identity.producer_id, identity.producer_epoch):
        return Fate.LOST
    # compared only if both are known: a description without an open transaction has no start
    if identity.started_at_ms > 0 and described.started_at_ms > 0:
        same_start = identity.started_at_ms == described.started_at_ms
    else:
        same_start = True
    if described.state in COMMITTED:
        return Fate.COMMITTED if same_start else Fate.LOST
    return Fate.UNDECIDED if described.state == ONGOING and same_start else Fate.LOST


def successor(name: str, producer_epoch: int, *, retire_epoch: int, lanes: int) -> str:
    """The name that replaces this one once its transaction is committed; empty: the name is reused."""
    whose = parsed(name)
    if producer_epoch < retire_epoch or whose is None:
        return ""
    return str(whose.successor(lanes))


def ours(names: Iterable[str], job: str, sink: str) -> dict[str, TransactionName]:
    """The names of this job (empty: any) and sink (empty: any), with their parts."""
    found = {name: whose for name in names if (whose := parsed(name)) is not None}
    return {
        name: whose for name, whose in found.items() if job in {"", whose.job} and (not job or sink in {"", whose.sink})
    }


def swept(names: Iterable[str], job: str, sink: str, attempt: int) -> list[str]:
    """The names of open transactions that a sweep ends: those of this job and sink, from an earlier attempt.

    It never ends those of a later attempt: the caller may be a coordinator that was suspended, and has been superseded
    by one whose attempt is running. Names contain the attempt only modulo 64, so the 31 attempts before this one count
    as earlier.
    """
    return sorted(
        name
        for name, whose in ours(names, job, sink).items()
        if 0 < (attempt - whose.attempt) % ATTEMPTS < ATTEMPTS // 2
    )
