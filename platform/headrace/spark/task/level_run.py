"""Runs one partition of one level, for any back end: bytes in, (partition of the next level, bytes) out.

Errors leave a Spark task as text that the driver can parse (`headrace.spark.task.failures`). In either kind of task
time advances once. The lateness of a row is judged by the `__wm` in the row, so results do not depend on when operators
receive the watermark.

A source task reads its splits from start to stop, and sends its chain's output:

    reader ──poll──> ingest ──> event time ──> chain      until every split has reached its stop
    one watermark: the last one of the splits (hand-over) or +inf; then the barrier; then the report

Every other task accepts the blobs of its senders in any order:

    blobs of all senders ──> in a sender's own order ──> chain
    the last trailer     ──> W = the least watermark of all senders ──> windows fire ──> barrier ──> report

The blobs of one sender reach the chain in the order in which it made them, because the last of a key's updating rows
counts. The order of the senders makes no difference to any result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connect.source import Reader, Split
from headrace.core.batch import concat_batches
from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, Watermark
from headrace.operators.aggregation.combining import CombiningOperator
from headrace.operators.chain import MAIN
from headrace.operators.operator import BAD
from headrace.plan.contexts import source_context
from headrace.plan.physical import SourceSpec
from headrace.rpc.deployment import AssignedSplitDocument
from headrace.spark.levels.envelope import Envelope, Kind, decode_partials, decode_rows, decode_watermark, destination
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.failures import task_failures
from headrace.spark.task.open_task import OpenTask, open_task
from headrace.spark.task.order import JobOrder, SourceShare
from headrace.spark.task.plan_cache import known_plan
from headrace.worker.slot.user_code import put_on_path
from headrace.worker.task.ingest import Ingest, open_ingest
from headrace.worker.task.source_progress import SourceProgress

Blobs = Iterator[tuple[int, bytes]]
POLL_MS = 100
MERGE_BYTES = 512 * 1024
"""Smaller blobs are merged up to about this size, tens of thousands of narrow rows: each call of a chain has its
cost."""
Channel = tuple[int, int]
"""Edge and sender."""


def run_level(order: JobOrder, level: int, partition: int, arriving: Iterable[bytes]) -> Blobs:
    """Runs the task in this partition. Raises TaskFailedError for every error."""
    with task_failures():
        yield from _run_partition(order, level, partition, arriving)


def _run_partition(order: JobOrder, level: int, partition: int, arriving: Iterable[bytes]) -> Blobs:
    put_on_path([entry for entry in order.python_path if entry and Path(entry).exists()])
    plan = known_plan(order.pipeline, order.plan_hash)
    levels = levels_of(plan, {task: len(shares) for task, shares in order.shares.items()})
    last = level + 1 == len(levels.widths)
    passing: list[bytes] = []

    def mine() -> Iterator[Envelope]:
        for data in arriving:
            if destination(data)[0] == level:
                yield Envelope.unpack(data)
            else:
                # for a later level: it must be sent on, whatever this task does
                passing.append(data)

    def onward(data: bytes) -> tuple[int, bytes]:
        to_level, to_partition = destination(data)
        # the last level's blobs are collected by the driver: their partition means nothing
        return 0 if last else levels.next_hop(level, to_level=to_level, to_partition=to_partition), data

    name, index = levels.at(level, partition)
    task = open_task(order, plan, levels, name, index)
    for envelope in run_range(task) if level == 0 else run_reading(task, mine()):
        yield onward(envelope.pack())
        while passing:
            yield onward(passing.pop())
    while passing:
        yield onward(passing.pop())


def run_range(task: OpenTask) -> Iterator[Envelope]:
    """Runs one partition of a source task to its end."""
    try:
        yield from _read_source(task, task.order.shares[task.task.name][task.index])
    finally:
        task.close()


def _read_source(task: OpenTask, share: SourceShare) -> Iterator[Envelope]:
    spec = task.task.nodes[0]
    assert isinstance(spec, SourceSpec), "a source task begins with a source"
    keeps_open = task.order.keeps_open(spec.node)
    time = SourceProgress(spec.node, spec.out_of_orderness_ms, task.order.floors, hand_over=keeps_open)
    chain = task.chain
    rows, bad = chain.receiver(spec.node, MAIN), chain.receiver(spec.node, BAD)
    ingest = open_ingest(spec, time, rows=rows, bad=bad, counters=chain.counters(spec.node), formats=task.order.formats)

    def open_reader() -> Reader:
        reader = spec.config.open_reader(source_context(spec, task.plan.pipeline, task.plan.batch_rows_max))
        chain.opened.append(reader)
        return reader

    for _ in _read(share, time, ingest, open_reader):
        yield from task.ready.take()
    watermark = _last_watermark(time, closes=not keeps_open) if spec.time is not None else None
    if watermark is not None:
        ingest.on_signal(Watermark(watermark))
    ingest.on_signal(Barrier(task.order.epoch))
    task.keep_states()
    yield from task.ready.take()
    yield from task.finish((spec.node, time.snapshot()))


def _last_watermark(time: SourceProgress, *, closes: bool) -> int | None:
    advanced = time.advance(None)
    # TIME_MAX fires every window; in a hand-over the watermark stays that of the rows
    return TIME_MAX if closes else advanced


def _read(
    share: SourceShare, time: SourceProgress, ingest: Ingest, open_reader: Callable[[], Reader]
) -> Iterator[None]:
    """Reads all splits; yields after every poll."""
    unread = [split for each in share.splits if (split := _begin(each, share, time)) is not None]
    waiting = {split.id for split in unread}
    if not waiting:
        return
    reader = open_reader()
    reader.assign(unread)
    while waiting:
        polled = reader.poll(POLL_MS)
        if polled.batch is not None and len(polled.batch):
            unknown = ingest.on_batch(polled.batch)
            if unknown is not None:
                raise unknown.error(f"source {ingest.node}")
        if polled.positions:
            time.moved(polled.positions)
        if polled.finished:
            time.finish(polled.finished)
            waiting -= polled.finished
        yield


def _begin(each: AssignedSplitDocument, share: SourceShare, time: SourceProgress) -> Split | None:
    """Adds a split to the source's time; returns it if it has rows to read."""
    split = each.split.split()
    assert split.stop is not None, "shares have an end"
    time.add(split.id, split.start, each.state, share.emitted)
    if split.start < split.stop:
        return split
    time.finish([split.id])
    return None


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
        yield from _read_blobs(task, blobs)
    finally:
        task.close()


def _read_blobs(task: OpenTask, blobs: Iterable[Envelope]) -> Iterator[Envelope]:
    rows = _Rows(task)
    inbox = Inbox(_channels(task))
    inputs = [edge.input for edge in task.plan.edges]
    for blob in blobs:
        for ordered in inbox.take(blob):
            # partials overtake rows that are still being merged: aggregates do not depend on that order
            if ordered.kind is Kind.PARTIALS:
                rows.pass_partials(ordered.payload)
            else:
                rows.add(inputs[ordered.edge], ordered.payload)
        yield from task.ready.take()
    rows.pass_on()
    yield from task.ready.take()
    watermark = inbox.watermark()
    if watermark > TIME_MIN:
        rows.head.on_signal(Watermark(watermark))
        yield from task.ready.take()
    rows.head.on_signal(Barrier(task.order.epoch))
    task.keep_states()
    yield from task.finish()


def _channels(task: OpenTask) -> Iterator[Channel]:
    for index, edge in enumerate(task.plan.edges):
        if edge.to_task == task.task.name:
            for sender in range(task.levels.stations[edge.from_task].width):
                yield index, sender


class _Rows:
    """Passes rows and partial aggregates into a task's chain; merges the small batches of each input."""

    def __init__(self, task: OpenTask) -> None:
        self._task = task
        self._inputs = task.chain.inputs()
        self.head = self._inputs[0]
        self._parts: dict[int, list[bytes]] = {}
        self._bytes: Counter[int] = Counter()

    def add(self, number: int, payload: bytes) -> None:
        """Adds a batch of the input with this number."""
        self._parts.setdefault(number, []).append(payload)
        self._bytes[number] += len(payload)
        if self._bytes[number] >= MERGE_BYTES:
            self._pass(number)

    def pass_partials(self, payload: bytes) -> None:
        """Passes partial aggregates to the task's first step."""
        operator = self._task.chain.steps[self._task.task.nodes[0].node]
        assert isinstance(operator, CombiningOperator), "only a step with a combiner receives partial aggregates"
        operator.take_partials(decode_partials(payload))

    def pass_on(self) -> None:
        """Passes the merged batches of every input."""
        for number in sorted(self._parts):
            self._pass(number)

    def _pass(self, number: int) -> None:
        batches = [decode_rows(part) for part in self._parts.pop(number)]
        del self._bytes[number]
        self._inputs[number].on_batch(concat_batches(batches))
