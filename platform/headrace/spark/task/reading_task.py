"""A task that reads from other tasks, in a Spark task: accepts their blobs in any order, then advances time once.

    blobs of all senders ──> in a sender's own order ──> chain
    the last trailer     ──> W = the least watermark of all senders ──> windows fire ──> barrier ──> report

The blobs of one sender reach the chain in the order in which it made them, because the last of a key's updating rows
counts. The order of the senders makes no difference to any result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.core.batch import concat_batches
from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MIN
from headrace.spark.levels.envelope import Envelope, Kind, decode_partials, decode_rows, decode_watermark
from headrace.spark.task.open_task import OpenTask
from headrace.spark.task.spilling_chain import SpillingChain

MERGE_BYTES = 512 * 1024
"""Smaller blobs are merged up to about this size, tens of thousands of narrow rows: each call of a chain has its
cost."""

Channel = tuple[int, int]
"""Edge and sender."""


@dataclass(slots=True)
class _Sender:
    """The blobs of one sender. held: blobs that overtook others, by number; count: their total number."""

    next: int = 0
    held: dict[int, Envelope] = field(default_factory=dict)
    count: int | None = None
    watermark: int = TIME_MIN

    @property
    def complete(self) -> bool:
        return self.count == self.next


class Inbox:
    """Restores each sender's order, and checks that every blob has arrived."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        self._senders = {channel: _Sender() for channel in channels}

    def take(self, blob: Envelope) -> Iterator[Envelope]:
        """Accepts a blob; returns the rows and partials that are in order now. A blob that came before is ignored."""
        sender = self._senders[blob.edge, blob.sender]
        match blob.kind:
            case Kind.TRAILER:
                sender.count, sender.watermark = blob.number, decode_watermark(blob.payload)
            case Kind.ROWS | Kind.PARTIALS if blob.number >= sender.next:
                # a retried sender may deliver a blob twice, with the same content
                sender.held[blob.number] = blob
                while sender.next in sender.held:
                    yield sender.held.pop(sender.next)
                    sender.next += 1
            case _:
                pass

    def watermark(self) -> int:
        """Returns the least watermark of all senders. Raises InternalError if a blob is missing."""
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
    chain = SpillingChain(task)
    inbox = Inbox(_channels(task))
    merged = _Merged(chain)
    for blob in blobs:
        for ordered in inbox.take(blob):
            # partials overtake rows that are still being merged: aggregates do not depend on that order
            if ordered.kind is Kind.PARTIALS:
                chain.on_partials(decode_partials(ordered.payload))
            else:
                merged.add(ordered.payload)
        yield from task.take_ready()
    merged.pass_on()
    for _ in chain.end(inbox.watermark()):
        yield from task.take_ready()
    yield from task.finish()


def _channels(task: OpenTask) -> Iterator[Channel]:
    for index, edge in enumerate(task.plan.edges):
        if edge.to_task == task.task.name:
            for sender in range(task.levels.stations[edge.from_task].width):
                yield index, sender


class _Merged:
    """Merges small batches for the chain."""

    def __init__(self, chain: SpillingChain) -> None:
        self._chain = chain
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, payload: bytes) -> None:
        """Adds a batch."""
        self._parts.append(payload)
        self._bytes += len(payload)
        if self._bytes >= MERGE_BYTES:
            self.pass_on()

    def pass_on(self) -> None:
        """Passes the merged batches to the chain."""
        if not self._parts:
            return
        batches = [decode_rows(part) for part in self._parts]
        self._parts, self._bytes = [], 0
        self._chain.on_batch(concat_batches(batches))
