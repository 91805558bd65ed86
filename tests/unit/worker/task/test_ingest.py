"""The rows that a source subtask sends for a polled batch, and readers and decoders that break their contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.format import Decoded, Messages, UnknownIds
from headrace.connect.source import MessageBatch, RowBatch, Run, SplitId
from headrace.core.batch import TS, WM
from headrace.core.errors import InternalError
from headrace.core.signals import Signal
from headrace.core.types import Schema, schema_of
from headrace.formats.doubtful_rows import staged_frame
from headrace.formats.json import JsonFormat
from headrace.operators.operator import OnError
from headrace.plan.physical import FormatSpec, RecordTime, RowTime, SourceSpec
from headrace.worker.task.ingest import FirstRowsCount, Ingest, open_ingest
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

    def decode(self, messages: Messages) -> Decoded:
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


class WaitingDecoder:
    """Knows no schema."""

    def decode(self, messages: Messages) -> UnknownIds:
        return UnknownIds(("7",), "schema 7")


def test_nothing_happens_to_a_batch_whose_schema_is_not_known() -> None:
    time, rows, counters = SourceProgress("src", 0), Kept(), Counter[str]()
    time.add(SPLIT, 0)
    taken = Ingest(SPEC, WaitingDecoder(), time=time, rows=rows, bad=Kept(), counters=counters)
    before = time.snapshot()
    values = pa.array([b"{}"], pa.large_binary())
    batch = MessageBatch(values=values, runs=(Run(SPLIT, 0, 1),), positions=np.arange(1, dtype=np.int64))
    assert taken.on_batch(batch) == UnknownIds(("7",), "schema 7")
    assert (rows.rows, counters, time.snapshot()) == ([], Counter(), before)


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


FAR_US = 2**62
WIDE = schema_of(
    {
        "at": "timestamp",
        "day": "date",
        "bytes": "binary",
        "times": "[timestamp]",
        "o": "{u: timestamp, p: decimal(10,2), b: binary}",
    }
)


def columns_of(values: dict[str, object]) -> pl.DataFrame:
    return staged_frame(WIDE, [[values.get(name) for name in WIDE.names]])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"at": FAR_US, "bytes": b"\xff"}, b'"at":4611686018427387904,"day":null,"bytes":"/w=="'),
        ({"day": 2**31 - 1, "at": 0}, b'"at":"1970-01-01T00:00:00.000Z","day":2147483647'),
        ({"times": [0, -FAR_US]}, b'"times":[0,-4611686018427387904]'),
        ({"o": {"u": FAR_US, "p": Decimal("1.5"), "b": b"x"}}, b'"o":{"u":4611686018427387904,"p":"1.50","b":"eA=="}'),
    ],
)
def test_a_bad_row_of_columns_is_shown_whatever_it_holds(values: dict[str, object], text: bytes) -> None:
    """JSON has no form for such times and for bytes: polars panics."""
    (bad,) = refused(WIDE, columns_of(values))
    assert text in bad["value"]
    assert "outside of the years 1 to 9999" in bad["reason"]


def refused(schema: Schema, rows: pl.DataFrame, bad: Mapping[int, str] | None = None) -> list[dict[str, Any]]:
    """The bad rows of a batch; all others arrive."""
    spec = replace(SPEC, schema=schema, output=schema, time=None, on_error=OnError.DIVERT)
    time, kept, found = SourceProgress("src", 0), Kept(), Kept()
    time.add(SPLIT, 0)
    taken = Ingest(spec, None, time=time, rows=kept, bad=found, counters=Counter())
    runs, positions = (Run(SPLIT, 0, rows.height),), np.arange(rows.height, dtype=np.int64)
    taken.on_batch(RowBatch(rows, positions, runs, bad=bad or {}))
    reasons = [row for batch in found.rows for row in batch.to_dicts()]
    assert sum(batch.height for batch in kept.rows) + len(reasons) == rows.height
    return reasons


def test_rows_with_null_where_none_may_be_are_bad_and_so_are_those_that_the_reader_names() -> None:
    schema = schema_of({"a": "int64 not null", "l": "[int64 not null]"})
    rows = pl.DataFrame({"a": [1, None, 3, None, 5], "l": [[1], [1], [None], [2], None]}, schema=schema.polars())
    bad = refused(schema, rows, {0: "unreadable", 3: "unreadable"})
    assert [(row["offset"], row["reason"]) for row in bad] == [
        (0, "unreadable"),
        (1, 'field "a" is not null but missing'),
        (2, 'field "l" is [int64 not null] but holds NULL'),
        (3, "unreadable"),
    ]


KEYED = replace(
    SPEC,
    format=FormatSpec("json", JsonFormat()),
    time=None,
    key_format=FormatSpec("json", JsonFormat()),
    key_schema=schema_of({"id": "int64 not null", "at": "timestamp"}),
)


def test_columns_of_the_key_come_after_those_of_the_value() -> None:
    """Every row has its own key, whatever other rows are bad, have no value or no key."""
    bad, rows = Kept(), Kept()
    spec = replace(KEYED, on_error=OnError.DIVERT, output=Schema((*KEYED.schema, *KEYED.key_schema)))
    time = SourceProgress("src", 0)
    time.add(SPLIT, 0)
    opened = open_ingest(spec, time, rows=rows, bad=bad, counters=Counter())
    good = b'{"ts": 1, "n": 1}'
    values = [good, b"{", good, None, good, good, good]
    keys = [b'{"id": 1}', b'{"id": 2}', b"}", b'{"id": 4}', None, b'{"id": 6, "at": 1}', b'{"at": 1}']
    batch = MessageBatch(
        values=pa.array(values, pa.large_binary()),
        keys=pa.array(keys, pa.binary()),
        runs=(Run(SPLIT, 0, 7),),
        positions=np.arange(7, dtype=np.int64),
    )
    assert opened.on_batch(batch) is None
    (kept,) = rows.rows
    assert [name for name in kept.columns if not name.startswith("__")] == [*SCHEMA, "id", "at"]
    assert kept.get_column("id").to_list() == [1, 6]
    reasons = dict(zip(*bad.rows[0].select("offset", "reason"), strict=True))
    assert sorted(reasons) == [1, 2, 4, 6]
    assert reasons[2].startswith("key: ")
    assert reasons[4] == 'field "id" of the key is not null, and there is no key'
    assert reasons[6] == 'key: field "id" is not null but missing'


def test_a_key_whose_schema_is_not_known_holds_its_batch_back() -> None:
    time, rows = SourceProgress("src", 0), Kept()
    time.add(SPLIT, 0)
    plain = open_ingest(replace(KEYED, key_format=None), time, rows=rows, bad=Kept(), counters=Counter())
    taken = Ingest(KEYED, plain._decoder, keys=WaitingDecoder(), time=time, rows=rows, bad=Kept(), counters=Counter())
    batch = MessageBatch(
        values=pa.array([b"{}"], pa.large_binary()),
        keys=pa.array([b"{}"], pa.binary()),
        runs=(Run(SPLIT, 0, 1),),
        positions=np.arange(1, dtype=np.int64),
    )
    assert taken.on_batch(batch) == UnknownIds(("7",), "schema 7")
    assert rows.rows == []
