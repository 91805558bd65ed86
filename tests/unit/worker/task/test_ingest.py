"""The rows that a source subtask sends for a polled batch, and readers and decoders that break their contract."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.format import Decoded
from headrace.connect.source import MessageBatch, RowBatch, Run, SplitId
from headrace.core.batch import TS, WM
from headrace.core.errors import InternalError
from headrace.core.signals import Signal
from headrace.core.types import schema_of
from headrace.operators.operator import OnError
from headrace.plan.physical import RecordTime, RowTime, SourceSpec
from headrace.worker.task.first_rows import FirstRowsCount
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.source_progress import SourceProgress
from support.control.scripted import SCHEMA, Script, ScriptedSource, frame

SPLIT = SplitId("t", 0)
SPEC = SourceSpec(
    node="src",
    connector="scripted",
    config=ScriptedSource(script=Script([], 0)),
    format=None,
    schema=schema_of(SCHEMA),
    output=schema_of(SCHEMA),
    metadata=(),
    time=RowTime("ts", 0, None, None),
    on_error=OnError.SKIP,
    order_columns=False,
)


class Kept:
    def __init__(self) -> None:
        self.rows: list[pl.DataFrame] = []

    def on_batch(self, batch: pl.DataFrame) -> None:
        self.rows.append(batch)

    def on_signal(self, signal: Signal) -> None: ...


class ForgetfulDecoder:
    """Returns no row and no reason for any message."""

    def decode(self, values: pa.Array) -> Decoded:
        return Decoded(frame([]), None, np.empty(0, dtype=np.int64), (), 0)


def ingest(spec: SourceSpec = SPEC, decoder: ForgetfulDecoder | None = None) -> tuple[Ingest, Kept]:
    time, rows = SourceProgress("src", 0), Kept()
    time.add(SPLIT, 0)
    return Ingest(spec, decoder, time=time, rows=rows, bad=Kept(), counters=Counter()), rows


def row_batch(times: list[int], *, end: int | None = None) -> RowBatch:
    runs = (Run(SPLIT, 0, len(times) if end is None else end),)
    return RowBatch(
        rows=frame([(ts, 0) for ts in times]),
        runs=runs,
        positions=np.arange(len(times), dtype=np.int64),
        timestamps=None,
    )


def test_rows_have_their_event_time_and_the_watermark_of_their_partition() -> None:
    taken, kept = ingest()
    taken.on_batch(row_batch([5_000, 3_000, 6_000]))
    assert kept.rows[0].get_column(TS).to_list() == [5_000, 3_000, 6_000]
    assert kept.rows[0].get_column(WM).to_list() == [4_999, 4_999, 5_999]


def test_a_decoder_that_loses_messages_is_an_error() -> None:
    taken, _ = ingest(decoder=ForgetfulDecoder())
    values = pa.array([b"{}", b"{}"], pa.large_binary())
    batch = MessageBatch(
        values=values, runs=(Run(SPLIT, 0, 2),), positions=np.arange(2, dtype=np.int64), timestamps=None
    )
    with pytest.raises(InternalError, match="source src: the decoder returned 0 of 2 messages"):
        taken.on_batch(batch)


def test_messages_without_a_format_are_an_error() -> None:
    taken, _ = ingest()
    batch = MessageBatch(
        values=pa.array([b"{}"], pa.large_binary()), runs=(Run(SPLIT, 0, 1),), positions=np.arange(1), timestamps=None
    )
    with pytest.raises(InternalError, match="source src has no format"):
        taken.on_batch(batch)


def test_a_reader_that_returns_no_record_timestamps_is_an_error() -> None:
    taken, _ = ingest(replace(SPEC, time=RecordTime(0, None, None)))
    with pytest.raises(InternalError, match="source src: the reader returned no record timestamps"):
        taken.on_batch(row_batch([1]))


def test_runs_that_do_not_cover_the_batch_are_an_error() -> None:
    taken, _ = ingest(replace(SPEC, metadata=(("topic", "topic"),)))
    with pytest.raises(InternalError, match="a batch of 3 rows with runs of 2"):
        taken.on_batch(row_batch([1, 2, 3], end=2))


MS = 1_700_000_000_000


@pytest.mark.parametrize("uses", ["time", "metadata", "nothing"])
def test_a_record_with_an_impossible_timestamp_is_bad_where_the_timestamp_is_used(uses: str) -> None:
    """Nanoseconds where milliseconds are meant: as microseconds they would wrap into another year."""
    stamps = np.array([MS, MS * 1_000_000, -(1 << 62), -1], dtype=np.int64)
    spec = replace(SPEC, on_error=OnError.DIVERT, time=RecordTime(0, None, None) if uses == "time" else None)
    if uses == "metadata":
        spec = replace(spec, metadata=(("timestamp", "at"),))
    time, rows, bad = SourceProgress("src", 0), Kept(), Kept()
    time.add(SPLIT, 0)
    taken = Ingest(spec, None, time=time, rows=rows, bad=bad, counters=Counter())
    taken.on_batch(replace(row_batch([1, 2, 3, 4]), timestamps=stamps))
    assert rows.rows[0].height == (4 if uses == "nothing" else 2)
    if uses == "nothing":
        return
    assert bad.rows[0].get_column("offset").to_list() == [1, 2]
    assert bad.rows[0].get_column("timestamp").to_list() == [None, None]
    assert set(bad.rows[0].get_column("reason")) == {"the record's timestamp is a time outside of the years 1 to 9999"}
    if uses == "metadata":
        assert rows.rows[0].get_column("at").to_physical().to_list() == [MS * 1000, -1000]


def test_figures_that_fail_leave_the_rows_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise pl.exceptions.PanicException("broken")

    monkeypatch.setattr(FirstRowsCount, "add", broken)
    taken, kept = ingest()
    taken.on_batch(row_batch([5_000, 3_000]))
    assert kept.rows[0].get_column(TS).to_list() == [5_000, 3_000]
