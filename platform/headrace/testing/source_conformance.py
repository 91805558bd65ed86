"""The contract of every source, as tests for a connector's author.

    class TestMySource(SourceConformance):
        @pytest.fixture
        def source(self) -> SourceUnderTest:
            return SourceUnderTest(MyConfig(..), SourceContext(..), splits=2, rows=100)

The source must be bounded and have some rows in every one of its splits. The suite is independent of the connector.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from headrace.connect.restored import restored
from headrace.connect.source import MessageBatch, Polled, Reader, RowBatch, SourceConfig, SourceContext, Split, SplitId

TIMEOUT_S = 240.0
POLL_MS = 20


@dataclass(frozen=True, slots=True)
class SourceUnderTest:
    """A bounded source, and its total number of splits and rows."""

    config: SourceConfig
    context: SourceContext
    splits: int
    rows: int

    def polling(self, rows_max: int) -> SourceUnderTest:
        """Returns the same source with this greatest poll size."""
        return replace(self, context=replace(self.context, poll_rows_max=rows_max))

    def discover(self) -> list[Split]:
        """Returns its splits."""
        enumerator = self.config.open_enumerator(self.context)
        try:
            return list(enumerator.discover())
        finally:
            enumerator.close()

    def discover_from(self, known: Sequence[Split], *, foreign: bool) -> list[Split]:
        """Returns its splits; those that were resolved before are arguments."""
        enumerator = restored(self.config.open_enumerator(self.context), self.context.node, known, foreign=foreign)
        try:
            found = list(enumerator.discover())
            assert list(enumerator.discover()) == found, "a split keeps its first answer"
            return found
        finally:
            enumerator.close()


@dataclass(slots=True)
class Received:
    """The rows of a reader and their positions by split, and the next position that it reported after each poll."""

    rows: dict[SplitId, list[Any]] = field(default_factory=dict)
    at: dict[SplitId, list[int]] = field(default_factory=dict)
    next_positions: dict[SplitId, list[int]] = field(default_factory=dict)
    finished: set[SplitId] = field(default_factory=set)

    def take(self, polled: Polled) -> None:
        """Adds a poll, and checks that its batch is well formed."""
        if polled.batch is not None:
            self._take_batch(polled.batch)
        for split, position in polled.positions.items():
            known = self.next_positions.setdefault(split, [])
            assert not known or position >= known[-1], f"{split} went back from {known[-1]} to {position}"
            assert not self.at.get(split) or position > self.at[split][-1], f"{split}: {position} is not past its rows"
            known.append(position)
        again = self.finished & (polled.at_end - polled.finished)
        assert not again, f"{again} finished and are at their end again"
        self.finished |= polled.finished

    def _take_batch(self, batch: MessageBatch | RowBatch) -> None:
        rows = batch_rows(batch)
        assert len(rows) == len(batch) > 0, "a batch has rows, and as many positions"
        assert batch.positions.dtype == np.int64, f"positions are int64, not {batch.positions.dtype}"
        assert batch.timestamps is None or len(batch.timestamps) == len(batch), "one timestamp a row"
        end = 0
        for run in batch.runs:
            assert run.begin == end < run.end, f"runs cover the rows in order, without a gap: {batch.runs}"
            end = run.end
            assert run.split not in self.finished, f"{run.split} finished and gave rows again"
            positions = batch.positions[run.begin : run.end].tolist()
            known = self.at.setdefault(run.split, [])
            for earlier, later in pairwise([*known[-1:], *positions]):
                assert earlier < later, f"{run.split}: position {later} after {earlier}"
            known.extend(positions)
            self.rows.setdefault(run.split, []).extend(rows[run.begin : run.end])
        assert end == len(batch), f"runs cover all {len(batch)} rows: {batch.runs}"


def batch_rows(batch: MessageBatch | RowBatch) -> list[Any]:
    """Returns the rows of a batch as comparable Python values."""
    if isinstance(batch, RowBatch):
        return batch.rows.rows()
    values = pl.from_arrow(batch.values)
    assert isinstance(values, pl.Series)
    return values.to_list()


def read_to_end(reader: Reader, splits: Sequence[Split], received: Received | None = None) -> Received:
    """Polls until every one of the assigned `splits` has finished. Fails after `TIMEOUT_S`."""
    received = received or Received()
    waiting = {split.id for split in splits}
    deadline = time.monotonic() + TIMEOUT_S
    while waiting - received.finished:
        assert time.monotonic() < deadline, f"{waiting - received.finished} did not finish within {TIMEOUT_S:.0f} s"
        received.take(reader.poll(POLL_MS))
    return received


class SourceConformance:
    """The tests. Subclass it and define the fixture `source`."""

    def _read(self, source: SourceUnderTest, splits: Sequence[Split]) -> Received:
        reader = source.config.open_reader(source.context)
        try:
            reader.assign(splits)
            return read_to_end(reader, splits)
        finally:
            reader.close()

    def _all(self, source: SourceUnderTest) -> tuple[list[Split], Received]:
        splits = source.discover()
        return splits, self._read(source, splits)

    def test_is_bounded_and_has_its_splits(self, source: SourceUnderTest) -> None:
        """`discover` returns the splits, each with a stop."""
        splits = source.discover()
        assert source.config.bounded
        assert len({split.id for split in splits}) == len(splits) == source.splits
        assert all(split.stop is not None for split in splits)

    def test_discover_again_gives_the_same(self, source: SourceUnderTest) -> None:
        """A split keeps its first answer, in the same enumerator and, for an unchanged source, in another."""
        enumerator = source.config.open_enumerator(source.context)
        first = list(enumerator.discover())
        again = list(enumerator.discover())
        enumerator.close()
        enumerator.close()
        assert first == again == source.discover()

    def test_a_restored_source_keeps_what_was_resolved(self, source: SourceUnderTest) -> None:
        """Known splits are returned as recorded, whatever the source contains now; others may be added."""
        first = source.discover()
        known = [replace(split, stop=split.start) for split in first[: max(1, len(first) - 1)]]
        found = source.discover_from(known, foreign=False)
        assert {split.id for split in found} <= {split.id for split in first}
        assert [split for split in found if split.id in {each.id for each in known}] == known

    def test_a_source_taken_on_resolves_its_stop_anew(self, source: SourceUnderTest) -> None:
        """Splits of another job keep their start; this job resolves their stop."""
        first = source.discover()
        known = [replace(split, stop=split.start) for split in first]
        assert source.discover_from(known, foreign=True) == first

    def test_every_row_comes_once(self, source: SourceUnderTest) -> None:
        """All rows of all splits; then every split is finished and nothing follows."""
        splits = source.discover()
        reader = source.config.open_reader(source.context)
        reader.assign(splits)
        received = read_to_end(reader, splits)
        after = reader.poll(POLL_MS)
        reader.close()
        assert sum(len(rows) for rows in received.rows.values()) == source.rows
        assert after.batch is None
        assert not after.positions

    def test_positions_stay_within_the_split(self, source: SourceUnderTest) -> None:
        """Rows lie in [start, stop), and the last position reported is the stop."""
        splits, received = self._all(source)
        for split in splits:
            assert split.stop is not None
            assert all(split.start <= at < split.stop for at in received.at.get(split.id, []))
            if split.start < split.stop:
                assert received.next_positions[split.id][-1] == split.stop

    def test_poll_size_changes_nothing(self, source: SourceUnderTest) -> None:
        """A poll returns at most the requested rows; rows and positions do not depend on the poll size."""
        splits, whole = self._all(source)
        for rows_max in (1, 7):
            small = self._read_counting(source.polling(rows_max), splits, rows_max)
            assert small.rows == whole.rows
            assert small.at == whole.at

    def _read_counting(self, source: SourceUnderTest, splits: Sequence[Split], rows_max: int) -> Received:
        reader = source.config.open_reader(source.context)
        reader.assign(splits)
        received, deadline = Received(), time.monotonic() + TIMEOUT_S
        while len(received.finished) < len(splits):
            assert time.monotonic() < deadline, f"not finished within {TIMEOUT_S:.0f} s"
            polled = reader.poll(POLL_MS)
            assert polled.batch is None or len(polled.batch) <= rows_max, f"asked for {rows_max} rows at most"
            received.take(polled)
        reader.close()
        return received

    def test_two_threads_may_poll_in_turn(self, source: SourceUnderTest) -> None:
        """Only for sources with `reads_ahead`: rows and positions do not depend on the thread that polls."""
        if not source.config.reads_ahead:
            return
        splits, whole = self._all(source)
        small = source.polling(7)
        reader, received = small.config.open_reader(small.context), Received()
        reader.assign(splits)
        deadline = time.monotonic() + TIMEOUT_S
        with ThreadPoolExecutor(1) as other:
            while len(received.finished) < len(splits):
                assert time.monotonic() < deadline, f"not finished within {TIMEOUT_S:.0f} s"
                received.take(reader.poll(POLL_MS))
                received.take(other.submit(reader.poll, POLL_MS).result())
        reader.close()
        assert received.rows == whole.rows
        assert received.at == whole.at

    def test_resume_gives_the_tail(self, source: SourceUnderTest) -> None:
        """Started again from reported positions, a reader returns exactly the rows from there on."""
        splits, whole = self._all(source)
        reported = self._read(source.polling(5), splits).next_positions
        for share in (0.3, 0.7):
            starts = {split: at[int(len(at) * share)] for split, at in reported.items()}
            tail = self._read(source, [split.starting_at(starts.get(split.id, split.start)) for split in splits])
            for split, start in starts.items():
                keep = [index for index, at in enumerate(whole.at[split]) if at >= start]
                assert tail.at.get(split, []) == [whole.at[split][index] for index in keep]
                assert tail.rows.get(split, []) == [whole.rows[split][index] for index in keep]

    def test_pause_and_resume_leave_no_gap(self, source: SourceUnderTest) -> None:
        """A paused split returns no rows; resumed, it continues at its position."""
        splits, whole = self._all(source)
        small = source.polling(3)
        reader = small.config.open_reader(small.context)
        reader.assign(splits)
        received = Received()
        self._poll_until_rows(reader, received)
        for split in splits:
            reader.pause([split.id])
            for _ in range(3):
                polled = reader.poll(POLL_MS)
                assert polled.batch is None or all(run.split != split.id for run in polled.batch.runs)
                received.take(polled)
            reader.resume([split.id])
        read_to_end(reader, splits, received)
        reader.close()
        assert received.rows == whole.rows
        assert received.at == whole.at

    def _poll_until_rows(self, reader: Reader, received: Received) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not received.rows:
            assert time.monotonic() < deadline, f"no row within {TIMEOUT_S:.0f} s"
            received.take(reader.poll(POLL_MS))

    def test_a_split_may_be_assigned_later(self, source: SourceUnderTest) -> None:
        """The splits that are already being read continue without a gap."""
        splits, whole = self._all(source)
        small = source.polling(3)
        reader = small.config.open_reader(small.context)
        received = Received()
        reader.assign(splits[:1])
        self._poll_until_rows(reader, received)
        reader.assign(splits[1:])
        read_to_end(reader, splits, received)
        reader.close()
        assert received.rows == whole.rows
        assert received.at == whole.at

    def test_a_finished_split_needs_no_reading(self, source: SourceUnderTest) -> None:
        """A split that starts at its stop finishes without a row."""
        ended = [split.starting_at(split.stop) for split in source.discover() if split.stop is not None]
        received = self._read(source, ended)
        assert not received.rows

    def test_commit_and_close_are_harmless(self, source: SourceUnderTest) -> None:
        """`commit` accepts reported positions; `close` may be called twice, and before the end."""
        splits = source.discover()
        reader = source.config.open_reader(source.context)
        reader.assign(splits)
        received = Received()
        self._poll_until_rows(reader, received)
        positions: Mapping[SplitId, int] = {split: at[-1] for split, at in received.next_positions.items()}
        reader.commit(positions)
        reader.commit(positions)
        reader.close()
        reader.close()

    def test_positions_are_told_to_people(self, source: SourceUnderTest) -> None:
        """`describe_position` returns a text for every row."""
        _, received = self._all(source)
        for split, places in received.at.items():
            texts = [source.config.describe_position(split, at) for at in places]
            assert all(texts)
            assert len(set(texts)) == len(texts), "different rows have different descriptions"
