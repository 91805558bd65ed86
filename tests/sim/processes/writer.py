"""The exactly-once writer of a slot: real lanes, one producer for each transaction, a spare made ready meanwhile.

Rows and barriers are dealt with in order; rows wait while no name is free or no answer comes, and a barrier behind them
waits as well. Answers to a process that sleeps come when it wakes up: then it goes on, as a zombie does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import CommittableDocument
from headrace.connect.sink import Committable
from headrace.core.text.digest_text import digest_text
from headrace_connectors.kafka.sink.transactional_writer import TransactionLanes
from sim.external.outside import SINK, TOPIC, Range, digest_of_rows
from sim.external.transactions import Brokers, Identity, Taker
from sim.world import Process

AGAIN_MS = 300
QUEUE_MAX = 4
Flushed = Callable[[tuple[CommittableDocument, ...]], None]


@dataclass(frozen=True, slots=True)
class WriterTerms:
    """Whose writer it is, its names, and when the brokers give up what it has open."""

    attempt: int
    subtask: int
    names: tuple[str, ...]
    timeout_ms: int


@dataclass(slots=True)
class _Producer:
    identity: Identity
    sequence: int = 0
    rows: list[Range] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Barrier:
    epoch: int
    done: Flushed


class Writer:
    """One writer in one process. `fenced`: what to do when the brokers shut it out."""

    def __init__(self, process: Process, brokers: Brokers, terms: WriterTerms, fenced: Callable[[], None]) -> None:
        self._process = process
        self._brokers = brokers
        self._terms = terms
        self._fenced = fenced
        self._lanes = TransactionLanes(terms.names)
        self._queue: deque[tuple[Range, ...] | _Barrier] = deque()
        self._busy = False
        self._spare: _Producer | None = None
        self._open: _Producer | None = None
        self._keep_a_spare()

    @property
    def blocked(self) -> bool:
        """Whether whoever has rows must wait."""
        return len(self._queue) >= QUEUE_MAX

    def write(self, rows: tuple[Range, ...]) -> None:
        """Takes rows."""
        if rows:
            self._queue.append(rows)
            self._pump()

    def flush(self, epoch: int, done: Flushed) -> None:
        """Prepares all that was written before; then says what is not known to be committed."""
        self._queue.append(_Barrier(epoch, done))
        self._pump()

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees names."""
        self._lanes.committed(epoch, successors)
        self._keep_a_spare()

    def _keep_a_spare(self) -> None:
        name = self._lanes.begin_spare()
        if name is not None:
            self._init(name)

    def _init(self, name: str) -> None:
        terms, known = self._terms, self._brokers.transactions

        def on_answer(answer: object) -> None:
            if not isinstance(answer, tuple) or answer[0] != 0:
                self._process.after(AGAIN_MS, lambda: self._init(name))
                return
            self._spare = _Producer(Identity(name, answer[1], answer[2]))
            self._pump()

        self._brokers.call(
            self._process, name, lambda: known.init(name, terms.timeout_ms, Taker("writer", terms.attempt)), on_answer
        )

    def _pump(self) -> None:
        while self._queue and not self._busy:
            head = self._queue[0]
            if isinstance(head, _Barrier):
                self._queue.popleft()
                self._prepare(head)
                continue
            if self._open is None:
                if self._spare is None:
                    return
                self._lanes.open()
                self._open, self._spare = self._spare, None
                self._keep_a_spare()
            self._open.sequence += 1
            self._open.rows += head
            self._busy = True
            self._produce(self._open, head)

    def _prepare(self, barrier: _Barrier) -> None:
        if self._open is not None:
            rows = self._open.rows
            item = Committable(
                sink=SINK,
                subtask=self._terms.subtask,
                epoch=barrier.epoch,
                payload={"topic": TOPIC},
                name=self._open.identity.name,
                rows=sum(behind - first for _, first, behind in rows),
                digest=digest_text(digest_of_rows(rows)),
            )
            self._lanes.prepared(item)
            self._open = None
            self._keep_a_spare()
        barrier.done(tuple(CommittableDocument.of(item) for item in self._lanes.pending))

    def _produce(self, producer: _Producer, rows: Sequence[Range]) -> None:
        known, sequence = self._brokers.transactions, producer.sequence

        def on_answer(answer: object) -> None:
            match answer:
                case 0:
                    self._queue.popleft()
                    self._busy = False
                    self._pump()
                case Exception() | 51:
                    self._process.after(AGAIN_MS, lambda: self._produce(producer, rows))
                case _:
                    self._fenced()

        name = producer.identity.name
        self._brokers.call(self._process, name, lambda: known.produce(producer.identity, sequence, rows), on_answer)
