"""What the broker's answers about transactions mean. Pure: the committer asks, this decides.

A transaction's states, as DescribeTransactions tells them:

    Empty ─> Ongoing ─┬─> PrepareCommit ─> CompleteCommit ─┐
      ^               └─> PrepareAbort ──> CompleteAbort ──┤
      └────────────────────── the next producer ───────────┘

Each transaction of ours has a (producer id, producer epoch) that no other has, for each comes from a producer of its
own. So who still finds them knows that this is the transaction, not a later one of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace_connectors.kafka.transactions.names import ATTEMPTS, TransactionName, parsed

ONGOING = "Ongoing"
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
ABORTED = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
UNSETTLED = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which read_committed readers are held back."""

NONE = 0
NOT_FOUND = 105
MOVED = frozenset({13, 14, 15, 16})
"""No connection; coordinator loading, not available, another one: ask who it is now."""
_PASSING = MOVED | {-1, 7, 51, 56}
"""Those, and: unknown server error, timed out at the broker, the transaction before is not out yet, disk."""
_OTHERWISE_ENDED = frozenset({47, 48, 49, 90})
"""Epoch or id not valid (any more), state not right, fenced: the transaction is not what it was."""
DENIED = frozenset({31, 53})

RETIRE_EPOCH = 30_000
"""Producer epochs end at 32,766; brokers had bugs right at the end. A name is left before."""


class Answer(StrEnum):
    """What an error code asks for."""

    DONE = "done"
    RETRY = "retry"
    LOOK = "look"
    DENIED = "denied"
    UNKNOWN = "unknown"


class Fate(StrEnum):
    """What became of a transaction whose commit was decided."""

    COMMITTED = "committed"
    LOST = "lost"
    UNDECIDED = "undecided"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Described:
    """A transaction as its coordinator tells of it. `started_at_ms`: -1 where there is none open."""

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    started_at_ms: int
    timeout_ms: int
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Undescribed:
    """The answer was an error code: 105, there is none of that name, or one that waiting does not heal."""

    name: str
    code: int

    @property
    def unknown(self) -> bool:
        """Whether there simply is none."""
        return self.code == NOT_FOUND


Description = Described | Undescribed


@dataclass(frozen=True, slots=True)
class Identity:
    """Which transaction was decided on. `started_at_ms` 0: not known."""

    producer_id: int
    producer_epoch: int
    started_at_ms: int = 0


def answer_to(code: int) -> Answer:
    """What an error code of EndTxn or InitProducerId asks for."""
    if code == NONE:
        return Answer.DONE
    if code in _PASSING:
        return Answer.RETRY
    if code in _OTHERWISE_ENDED:
        return Answer.LOOK
    return Answer.DENIED if code in DENIED else Answer.UNKNOWN


def refusal(described: Description, topic: str) -> str | None:
    """Why a transaction that its writer flushed cannot be committed, or None: it can."""
    if isinstance(described, Undescribed):
        return "the broker knows none of that name: it never took a record, or its state was deleted"
    if described.state == ONGOING:
        if topic not in described.partitions:
            return (
                f"it is open, but holds no record of topic {topic!r} that this login may see: it lacks DESCRIBE on the "
                "topic, or another producer uses the name"
            )
        return None
    if described.state in ABORTED:
        return f"the broker aborted it: it was open for longer than transaction_timeout ({described.timeout_ms} ms)"
    if described.state == "Empty":
        return "another producer has taken its name and ended it (fenced)"
    if described.state in COMMITTED:
        return "somebody committed it already"
    return "nothing is known of that state"


def fate(identity: Identity, described: Description) -> Fate:
    """What became of a transaction whose EndTxn(commit) was answered with: not what it was.

    Brokers forget a name that is long unused, whatever became of its transaction: then nobody can tell.
    """
    if isinstance(described, Undescribed):
        return Fate.FORGOTTEN
    if (described.producer_id, described.producer_epoch) != (identity.producer_id, identity.producer_epoch):
        return Fate.LOST
    if identity.started_at_ms > 0 and described.started_at_ms > 0:
        same_start = identity.started_at_ms == described.started_at_ms
    else:
        same_start = True
    if described.state in COMMITTED:
        return Fate.COMMITTED if same_start else Fate.LOST
    return Fate.UNDECIDED if described.state == ONGOING and same_start else Fate.LOST


def successor(name: str, producer_epoch: int, *, retire_epoch: int, lanes: int) -> str:
    """The name that takes this one's place once it is committed; empty: it stays."""
    whose = parsed(name)
    if producer_epoch < retire_epoch or whose is None:
        return ""
    return str(whose.successor(lanes))


def ours(names: Iterable[str], job: str, sink: str) -> dict[str, TransactionName]:
    """Those of the names that are of this job (empty: of any) and sink (empty: of any)."""
    found = {name: whose for name in names if (whose := parsed(name)) is not None}
    return {
        name: whose for name, whose in found.items() if job in {"", whose.job} and (not job or sink in {"", whose.sink})
    }


def swept(names: Iterable[str], job: str, sink: str, attempt: int) -> list[str]:
    """Those of the open transactions that a sweep ends: of this job and sink, of an earlier attempt.

    Never of a later one: a coordinator that was replaced while it slept may ask for this. Names tell attempts modulo
    64 only, so the 31 before this one count as earlier.
    """
    return sorted(
        name
        for name, whose in ours(names, job, sink).items()
        if 0 < (attempt - whose.attempt) % ATTEMPTS < ATTEMPTS // 2
    )
