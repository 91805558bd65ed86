"""A Kafka cluster as far as transactions go: what it knows of each transactional id, and the way to it.

Answers are those that were proven on a real broker (`kafka-exactly-once`, section 1):

    EndTxn of (id, epoch)    as stored      other epoch   other id
    Ongoing                  0              90            49
    PrepareCommit            51             90            49
    CompleteCommit           0              90            49
    all others               48             90            49

InitProducerId ends what is open, answers 51 until that is done, then gives the next epoch; a transaction that is open
for longer than its timeout is aborted, and its epoch ends.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.transactions.rules import NOT_FOUND, ONGOING, Described, Description, Undescribed
from sim.external.outside import TOPIC, Range
from sim.world import Process, World

CONCURRENT, WRONG_STATE, WRONG_ID, FENCED, DENIED = 51, 48, 49, 90, 53
BROKERS = 3
EPOCHS_MAX = 60
"""Then another producer id begins with epoch 0: far earlier than with a real broker."""
SCANNED_MS = 10_000
"""So late a broker may see that time is up."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One transaction: no other one has all three."""

    name: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Taker:
    """Who initialises a name. attempt: whose fence or sweep that is; of a writer, its own."""

    what: str
    attempt: int


@dataclass(slots=True)
class Entry:
    """What is known of a transactional id. `taken_by`: number of the attempt whose writer has it, or -1."""

    name: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = 0
    state: str = "Empty"
    started_ms: int = -1
    rows: list[Range] = field(default_factory=list)
    sequence: int = 0

    @property
    def identity(self) -> Identity:
        """The transaction that it has now, or gets."""
        return Identity(self.name, self.producer_id, self.producer_epoch)


class Watcher(Protocol):
    """Who is told of everything that cannot be undone."""

    def visible(self, identity: Identity, rows: Sequence[Range]) -> None: ...

    def aborted(self, identity: Identity, by: Taker | None) -> None:
        """`by` None: its time was up."""
        ...

    def taken(self, identity: Identity, by: Taker) -> None:
        """A name is initialised; `identity`: the transaction it had before."""
        ...


class Transactions:
    """The transaction coordinators of all brokers together."""

    def __init__(self, world: World, watcher: Watcher) -> None:
        self._world = world
        self._watcher = watcher
        self.entries: dict[str, Entry] = {}
        self._producer_ids = 0

    def init(self, name: str, timeout_ms: int, by: Taker) -> tuple[int, int, int]:
        """InitProducerId: error code, producer id, epoch."""
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = Entry(name, self._new_id(), timeout_ms)
            return 0, entry.producer_id, 0
        if entry.state == ONGOING:
            self._abort(entry, by)
            return CONCURRENT, -1, -1
        if entry.state.startswith("Prepare"):
            return CONCURRENT, -1, -1
        self._watcher.taken(entry.identity, by)
        entry.state, entry.started_ms, entry.rows, entry.sequence = "Empty", -1, [], 0
        entry.producer_epoch += 1
        entry.timeout_ms = timeout_ms
        if entry.producer_epoch > EPOCHS_MAX:
            entry.producer_id, entry.producer_epoch = self._new_id(), 0
        return 0, entry.producer_id, entry.producer_epoch

    def produce(self, whose: Identity, sequence: int, rows: Sequence[Range]) -> int:
        """Rows of a producer; the same number again changes nothing. Gives an error code."""
        entry = self.entries[whose.name]
        if entry.identity != whose:
            return FENCED
        if sequence <= entry.sequence:
            return 0
        if entry.state.startswith("Prepare"):
            return CONCURRENT
        if entry.state != ONGOING:
            entry.state, entry.started_ms, entry.rows = ONGOING, self._world.now_ms, []
            late_ms = entry.timeout_ms + self._world.between(0, SCANNED_MS)
            started_ms = entry.started_ms
            self._world.after(late_ms, lambda: self._expire(entry, whose, started_ms))
        entry.sequence = sequence
        entry.rows += rows
        return 0

    def end(self, whose: Identity) -> int:
        """EndTxn(commit), v1 to v4."""
        entry = self.entries.get(whose.name)
        if entry is None or entry.producer_id != whose.producer_id:
            return WRONG_ID
        if entry.producer_epoch != whose.producer_epoch:
            return FENCED
        if entry.state == "CompleteCommit":
            return 0
        if entry.state == "PrepareCommit":
            return CONCURRENT
        if entry.state != ONGOING:
            return WRONG_STATE
        entry.state = "PrepareCommit"
        self._watcher.visible(whose, entry.rows)
        self._world.after(self._world.delay_ms(), lambda: self._complete(entry, "CompleteCommit"))
        return 0

    def describe(self, name: str) -> Description:
        """DescribeTransactions of one."""
        entry = self.entries.get(name)
        if entry is None:
            return Undescribed(name, NOT_FOUND)
        opened = entry.state == ONGOING or entry.state.startswith("Prepare")
        started_ms = entry.started_ms if opened else -1
        partitions = {TOPIC: (0,)} if opened else {}
        return Described(
            name, entry.state, entry.producer_id, entry.producer_epoch, started_ms, entry.timeout_ms, partitions
        )

    def listed(self, prefix: str, states: Sequence[str]) -> dict[str, str]:
        """ListTransactions."""
        return {
            name: entry.state
            for name, entry in self.entries.items()
            if name.startswith(prefix) and entry.state in states
        }

    @property
    def open(self) -> list[Entry]:
        """What holds back readers."""
        return [entry for entry in self.entries.values() if entry.state == ONGOING]

    def _new_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def _abort(self, entry: Entry, by: Taker | None) -> None:
        self._world.tell(f"kafka: {entry.identity} is aborted by {by or 'time'}")
        self._watcher.aborted(entry.identity, by)
        entry.state = "PrepareAbort"
        entry.producer_epoch += 1
        self._world.after(self._world.delay_ms(), lambda: self._complete(entry, "CompleteAbort"))

    def _complete(self, entry: Entry, state: str) -> None:
        if entry.state.startswith("Prepare"):
            entry.state = state

    def _expire(self, entry: Entry, whose: Identity, started_ms: int) -> None:
        if entry.identity == whose and entry.state == ONGOING and entry.started_ms == started_ms:
            self._abort(entry, None)


class Brokers:
    """The way to them: slow, one or all of them away for a while, and answers get lost. Each name is with one."""

    def __init__(self, world: World, watcher: Watcher, unanswered: float, denied: float) -> None:
        self.world = world
        self.transactions = Transactions(world, watcher)
        self._away_until_ms = [0] * BROKERS
        self._unanswered = unanswered
        self._denied = denied

    def call(self, caller: Process, name: str, call: Callable[[], object], answer: Callable[[object], None]) -> None:
        """Does something with a name in a while and answers later; the answer may be an exception. It is done even if
        the caller has died meanwhile."""
        broker = zlib.crc32(name.encode()) % BROKERS
        self.world.after(self.world.delay_ms(), lambda: self._do(caller, broker, call, answer))

    def leave(self, for_ms: int) -> None:
        """One of them, or all, give no answers for a while."""
        number = self.world.between(0, 2 * BROKERS - 1)
        for each in range(BROKERS):
            if number in {each, *range(BROKERS, 2 * BROKERS)}:
                self._away_until_ms[each] = self.world.now_ms + for_ms

    def come_back(self) -> None:
        """All of them are there."""
        self._away_until_ms = [0] * BROKERS

    def refuses(self) -> bool:
        """Whether a request is denied, as by an ACL."""
        return self.world.happens(self._denied)

    def _do(self, caller: Process, broker: int, call: Callable[[], object], answer: Callable[[object], None]) -> None:
        world = self.world
        if world.now_ms < self._away_until_ms[broker] or world.happens(self._unanswered / 2):
            result: object = ExternalError("the brokers are away", retry=True)
        else:
            result = call()
            if world.happens(self._unanswered / 2):
                result = ExternalError("no answer from the brokers", retry=True)
        world.after(world.delay_ms(), lambda: caller.deliver(lambda: answer(result)))
