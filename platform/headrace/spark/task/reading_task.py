"""A task that reads from other tasks, in a Spark task: takes their blobs in any order, then lets time pass once.

    blobs of all senders ──> in a sender's own order ──> chain
    the last trailer     ──> W = the least watermark of all senders ──> windows fire ──> barrier ──> report

Blobs of one sender go to the chain in the order in which it made them, for of updating rows the last one counts. Which
sender comes first makes no difference to any result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.core.batch import concat_batches
from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MIN
from headrace.spark.levels.envelope import Envelope, Kind, decode_partials, decode_rows, decode_watermark
from headrace.spark.task.fold import Fold
from headrace.spark.task.open_task import OpenTask

MERGE_ROWS = 65_536
"""Smaller blobs are put together up to so many rows: each call of a chain has its price."""

Channel = tuple[int, int]
"""Edge and sender."""


@dataclass(slots=True)
class _Sender:
    """What came of one sender. held: blobs that overtook others, by number; count: how many there are in all."""

    next: int = 0
    held: dict[int, Envelope] = field(default_factory=dict)
    count: int | None = None
    watermark: int = TIME_MIN

    @property
    def complete(self) -> bool:
        return self.count == self.next


class Inbox:
    """Puts each sender's blobs in order, and knows when all of them are there."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        self._senders = {channel: _Sender() for channel in channels}

    def take(self, blob: Envelope) -> Iterator[Envelope]:
        """Takes one; gives those with rows or partials that are in order now. One that came before is passed over."""
        sender = self._senders[blob.edge, blob.sender]
        match blob.kind:
            case Kind.TRAILER:
                sender.count, sender.watermark = blob.number, decode_watermark(blob.payload)
            case Kind.ROWS | Kind.PARTIALS if blob.number >= sender.next:
                sender.held[blob.number] = blob
                while sender.next in sender.held:
                    yield sender.held.pop(sender.next)
                    sender.next += 1
            case _:
                pass

    def watermark(self) -> int:
        """The least watermark of all senders. Raises InternalError where something is missing."""
        for (edge, number), sender in self._senders.items():
            if not sender.complete:
                raise InternalError(f"sender {number} of edge {edge} sent {sender.count} blobs, {sender.next} came")
        return min((sender.watermark for sender in self._senders.values()), default=TIME_MIN)


def run_reading(task: OpenTask, blobs: Iterable[Envelope]) -> Iterator[Envelope]:
    """Runs one partition of a task to its end. blobs: ROWS, PARTIALS and TRAILERs for it."""
    try:
        yield from _run(task, blobs)
    finally:
        task.close()


def _run(task: OpenTask, blobs: Iterable[Envelope]) -> Iterator[Envelope]:
    fold = Fold(task)
    inbox = Inbox(_channels(task))
    merged = _Merged(fold)
    for blob in blobs:
        for ordered in inbox.take(blob):
            if ordered.kind is Kind.PARTIALS:
                fold.on_partials(decode_partials(ordered.payload))
            else:
                merged.add(ordered.payload)
        yield from task.take_ready()
    merged.pass_on()
    for _ in fold.end(inbox.watermark()):
        yield from task.take_ready()
    yield from task.finish()


def _channels(task: OpenTask) -> Iterator[Channel]:
    for index, edge in enumerate(task.plan.edges):
        if edge.to_task == task.task.name:
            for sender in range(task.levels.stations[edge.from_task].width):
                yield index, sender


class _Merged:
    """Puts small batches together before the chain gets them."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, payload: bytes) -> None:
        """Takes a batch."""
        self._parts.append(payload)
        self._bytes += len(payload)
        if self._bytes >= MERGE_ROWS * 8:
            self.pass_on()

    def pass_on(self) -> None:
        """Hands down what there is."""
        if not self._parts:
            return
        batches = [decode_rows(part) for part in self._parts]
        self._parts, self._bytes = [], 0
        self._fold.on_batch(concat_batches(batches))
