from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from headrace.connect.source import RowBatch, SourceContext
from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import Received, read_to_end
from headrace_connectors.memory import MemorySinkConfig, MemorySourceConfig, open_collected, open_feed
from headrace_connectors.memory.connector import typed_rows

SCHEMA = schema_of({"id": "int64 not null", "name": "string"})
CONTEXT = SourceContext("p", "n", SCHEMA)


def test_a_feed_is_read_while_it_grows() -> None:
    with open_feed("live", partitions=2) as feed:
        config = MemorySourceConfig(name="live")
        assert not config.bounded
        splits = config.open_enumerator(CONTEXT).discover()
        reader = config.open_reader(CONTEXT)
        reader.assign(splits)
        received = Received()
        assert reader.poll(1).batch is None
        feed.append([{"id": "1"}], partition=1)
        received.take(reader.poll(1000))
        assert list(received.rows.values()) == [[(1, None)]]

        def later() -> None:
            feed.append(pl.DataFrame({"id": [2], "name": ["b"]}), partition=1)
            feed.end()

        thread = threading.Thread(target=later)
        thread.start()
        read_to_end(reader, splits, received)
        thread.join()
        assert list(received.rows.values()) == [[(1, None), (2, "b")]]
    with pytest.raises(UserError, match="no memory feed 'live' is open"):
        config.open_reader(CONTEXT)


def test_timestamps_of_rows() -> None:
    rows = ({"id": "1", "$timestamp": "2024-01-01T00:00:00Z"}, {"id": "2", "$timestamp": "5"})
    config = MemorySourceConfig(rows=rows)
    reader = config.open_reader(CONTEXT)
    reader.assign(config.open_enumerator(CONTEXT).discover())
    batch = reader.poll(1).batch
    assert isinstance(batch, RowBatch)
    assert batch.timestamps is not None
    assert batch.timestamps.tolist() == [1704067200000, 5]
    assert batch.rows.columns == ["id", "name"]


def test_text_is_typed_by_the_schema() -> None:
    schema = schema_of(
        {
            "b": "bool",
            "i": "int32",
            "f": "float64",
            "s": "string",
            "y": "binary",
            "d": "date",
            "t": "timestamp",
            "e": "timestamp",
            "p": "decimal(5,2)",
            "l": "[int64]",
        }
    )
    row: dict[str, Any] = {
        "b": "true",
        "i": "7",
        "f": "1.5",
        "s": "12",
        "y": "AQI=",
        "d": "2024-02-29",
        "t": "2024-01-01T00:00:00",
        "e": "1000",
        "p": "1.25",
        "l": ["1", None],
    }
    assert typed_rows([row], schema, "n").row(0) == (
        True,
        7,
        1.5,
        "12",
        b"\x01\x02",
        date(2024, 2, 29),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        Decimal("1.25"),
        [1, None],
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "x"}, "row 1: 'x' is no int64 \\(id\\)"),
        ({"name": "a"}, "row 1: column 'id' is not null and has no value"),
        ({"id": "1", "nam": "a"}, "row 1 has 'nam', which is no column"),
    ],
)
def test_rows_that_do_not_fit(row: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        typed_rows([row], SCHEMA, "n")


def test_what_is_wrong_with_a_source() -> None:
    with pytest.raises(ValidationError, match="either rows or name"):
        MemorySourceConfig()
    with pytest.raises(ValidationError, match="is not below partitions"):
        MemorySourceConfig(rows=({"id": "1", "$partition": "1"},))


def test_collected_lives_as_long_as_its_block() -> None:
    from headrace.connect.sink import SinkBatch, SinkContext

    context = SinkContext("j", "n", 0, 1, SCHEMA)
    with open_collected("out") as collected:
        writer = MemorySinkConfig(name="out").open_writer(context)
        writer.write(SinkBatch(pl.DataFrame({"id": [1], "name": ["a"], "__ts": [0]})))
        assert collected.batches(flushed=True) == []
        writer.flush(1)
        assert len(collected.batches(flushed=True)) == 1
        assert collected.rows() == [{"id": 1, "name": "a"}]
        assert collected.wait_rows(1, 0)
        assert not collected.wait_rows(2, 0.001)
    with pytest.raises(UserError, match="nobody collects memory sink 'out'"):
        MemorySinkConfig(name="out").open_writer(context)
