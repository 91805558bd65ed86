"""Reads each partition from an archive up to its end, then from Kafka, as if Kafka still had all of it.

Owns the switch of a partition. `headrace.formats.archive` owns the files and their choice, `reader` owns consuming.
Batches are the same from both: an offset has the same content in both places.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from headrace.connect.source import MessageBatch, Polled, Run, SourceContext, Split, SplitId
from headrace.formats.archive.coverage import require_covered
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.partition import PartitionReader
from headrace.formats.archive.ranges import covered
from headrace.formats.archive.schema import numbers
from headrace_connectors.kafka.config import KafkaSourceSettings
from headrace_connectors.kafka.source.reader import KafkaReader

BOUNDS_TIMEOUT_S = 5.0
LOG_END_INTERVAL_S = 10.0
"""Greatest age of the log end from which the lag of an archived partition is computed."""
LOG_END_TIMEOUT_S = 0.2


class ArchivedReader:
    """Reads every partition from either the archive or Kafka, and switches each of them once."""

    def __init__(self, config: KafkaSourceSettings, context: SourceContext) -> None:
        assert config.archive is not None, "opened for sources with an archive"
        self._context = context
        self._folder = ArchiveFolder(config.archive)
        self._kafka = KafkaReader(config, context)
        self._reading: dict[SplitId, PartitionReader] = {}
        self._order: deque[SplitId] = deque()
        self._in_kafka = 0
        self._paused: set[SplitId] = set()
        self._kafka_turn = False
        self._last = Polled()
        self._ends: dict[SplitId, tuple[float, int | None]] = {}

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions, each from its `start`."""
        wants = self._context
        columns = ["value"]
        columns += ["timestamp"] * wants.wants_timestamps
        columns += ["key"] * wants.wants_keys
        columns += ["headers"] * wants.wants_headers
        answers = True
        self._kafka.identify(splits)
        for split in splits:
            assert split.id not in self._reading, f"{split.id} is assigned already"
            reader = PartitionReader(self._folder, split.id, split.start, split.stop, columns)
            if reader.finished:
                self._hand_over(split.id, reader)
                continue
            # a position from a checkpoint may be older than the files that the enumerator checked
            answers = answers and self._covered(split.id, reader) is not None
            self._reading[split.id] = reader
            self._order.append(split.id)

    def _covered(self, split: SplitId, reader: PartitionReader) -> int | None:
        """Kafka's first offset. Raises UserError if part of the remaining range is in neither place. None if no broker
        answers: Kafka's reader then waits for one, and checks the position itself."""
        bounds = self._kafka.log_bounds(split, BOUNDS_TIMEOUT_S)
        if bounds is None:
            return None
        if reader.position < bounds[0]:
            archived = covered(self._folder.files(*split))
            place = f"{split.topic} partition {split.partition}"
            url, low = self._folder.url, bounds[0]
            require_covered(place, archived, reader.position, reader.stop, log_start=low, archive=url)
        return bounds[0]

    def confirm(self) -> None:
        """Raises UserError if a topic is another one than that of its splits."""
        self._kafka.confirm()

    def poll(self, timeout_ms: int) -> Polled:
        """Returns rows of the archive and of Kafka in turn."""
        if not self._kafka.verified(timeout_ms):
            return Polled()
        moved: dict[SplitId, int] = {}
        batch = None
        kafka = Polled(at_end=self._last.at_end, lag=self._last.lag)
        if self._kafka_turn or not self._may_read():
            # waits for Kafka only if no archive is left to read
            kafka = self._last = self._kafka.poll(0 if self._may_read() else timeout_ms)
            batch = kafka.batch
        if batch is None:
            batch, finished = self._read_archive(moved)
        else:
            finished = frozenset()
        self._kafka_turn = not self._kafka_turn and self._in_kafka > 0
        return Polled(
            batch=batch,
            positions={**kafka.positions, **moved},
            at_end=kafka.at_end,
            finished=kafka.finished | finished,
            lag={**kafka.lag, **self._lag()},
            remarks=kafka.remarks,
        )

    def _may_read(self) -> bool:
        return any(split not in self._paused for split in self._reading)

    def _read_archive(self, moved: dict[SplitId, int]) -> tuple[MessageBatch | None, frozenset[SplitId]]:
        """Rows of the first partition that has some; partitions take turns. Records moved positions; returns finished
        partitions."""
        finished: set[SplitId] = set()
        for _ in range(len(self._order)):
            split = self._order[0]
            self._order.rotate(-1)
            if split in self._paused:
                continue
            reader = self._reading[split]
            before = reader.position
            rows = reader.read(self._context.poll_rows_max)
            if reader.position > before:
                moved[split] = reader.position
            if reader.finished:
                self._forget(split)
                finished.add(split)
            elif rows is None:
                self._forget(split)
                self._go_over(split, reader)
            if rows is not None:
                return self._batch(split, rows), frozenset(finished)
        return None, frozenset(finished)

    def _forget(self, split: SplitId) -> None:
        self._reading.pop(split).close()
        self._order.remove(split)
        self._ends.pop(split, None)

    def _go_over(self, split: SplitId, reader: PartitionReader) -> None:
        """Switches to Kafka at the end of the archive. Raises UserError if Kafka begins later."""
        low = self._covered(split, reader)
        if low is None or reader.position >= low:
            self._hand_over(split, reader)
            return
        # the missing offsets have been archived meanwhile
        self._reading[split] = reader
        self._order.append(split)

    def _hand_over(self, split: SplitId, reader: PartitionReader) -> None:
        self._in_kafka += 1
        self._kafka.assign([Split(split, reader.position, reader.stop)])
        if split in self._paused:
            self._kafka.pause([split])

    def _batch(self, split: SplitId, rows: pa.Table) -> MessageBatch:
        wants = self._context
        return MessageBatch(
            values=_column(rows, "value"),
            positions=numbers(rows, "offset"),
            runs=(Run(split, 0, rows.num_rows),),
            timestamps=numbers(rows, "timestamp") if wants.wants_timestamps else None,
            keys=_column(rows, "key") if wants.wants_keys else None,
            headers=pl.Series("headers", pl.from_arrow(rows["headers"])) if wants.wants_headers else None,
        )

    def _lag(self) -> Mapping[SplitId, int]:
        """Lag of the partitions that are read from the archive; asks for one log end per call at most."""
        now = time.monotonic()
        due = [split for split in self._reading if split not in self._ends or self._ends[split][0] <= now]
        if due:
            bounds = self._kafka.log_bounds(due[0], LOG_END_TIMEOUT_S)
            self._ends[due[0]] = (now + LOG_END_INTERVAL_S, None if bounds is None else bounds[1])
        return {
            split: max(end - self._reading[split].position, 0)
            for split, (_, end) in self._ends.items()
            if end is not None
        }

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops delivering these partitions, from either place."""
        self._paused.update(splits)
        self._kafka.pause([split for split in splits if split not in self._reading])

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues paused partitions."""
        self._paused.difference_update(splits)
        self._kafka.resume([split for split in splits if split not in self._reading])

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Publishes positions to the consumer group, asynchronously; also of partitions still in the archive."""
        self._kafka.commit(positions)

    def close(self) -> None:
        """Closes files, and leaves the group."""
        for reader in self._reading.values():
            reader.close()
        self._kafka.close()


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
