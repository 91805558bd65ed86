"""A soak of poison below sinks: every hostile row is written as it is, or leaves by the sink's `on_error`.

What a sink wrote is read back in plain Python, and compared with rows that an oracle decodes, one message at a time. So
no row that a sink refuses alters its neighbours, in any format, whatever engine runs the pipeline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.errors import DataError
from headrace.core.reporting import FAILED
from headrace.core.types import schema_of
from headrace_connectors.files.paths import place_of
from headrace_connectors.memory import Collected, open_collected
from headrace_dev.broker import EmbeddedBroker
from support.flows.poison import NESTED, Poisoned, poisoned_json
from support.flows.poisoned_runs import Way, placed, run
from support.flows.poisoned_sinks import (
    STEPS,
    PoisonedSink,
    Row,
    file_sinks,
    is_line,
    json_rows,
    kafka_sinks,
    physical_rows,
)
from support.flows.poisoned_tables import dead_letter_sinks, postgres_sinks, sqlite_sinks
from support.kafka.broker import Broker, Record, consume_all, create_topic, produce, unique_topic
from support.oracles.json_messages import oracle
from support.storage.postgres import Postgres, postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.broker

WAYS = (
    Way(batch=40, engine="threads", kernels=True),
    Way(batch=1_000, engine="slots", kernels=False),
    Way(batch=7, engine="spark", kernels=True),
)


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The URL of an empty database of PostgreSQL."""
    return postgres.url(postgres.create_database())


def files_source(folder: Path) -> dict[str, Any]:
    return {"files": {"path": str(folder / "rows-*")}, "format": "json", "schema": NESTED, "on_error": "skip"}


def document(source: Mapping[str, Any], sinks: Mapping[str, PoisonedSink]) -> dict[str, Any]:
    """All sinks in one pipeline, and a sink in memory for each that diverts."""
    diverted = {
        f"{name}_bad": {"from": f"{name}.bad", "memory": {"name": f"{name}_bad"}}
        for name, sink in sinks.items()
        if sink.on_error == "divert"
    }
    steps = {name: step for name, step in STEPS.items() if name in _read_nodes(sinks)}
    return {
        "name": "poison",
        "parallelism": 2,
        "sources": {"s": dict(source)},
        "sinks": {name: sink.document() for name, sink in sinks.items()} | diverted | {"shown": SHOWN},
    } | ({"steps": steps} if steps else {})


SHOWN = {"from": "s", "print": {}}


def _read_nodes(sinks: Mapping[str, PoisonedSink]) -> set[str]:
    read = {sink.reads for sink in sinks.values()}
    return read | ({"texts"} if "lines" in read else set())


def check_soak(
    folder: Path, broker: Broker, database: str, poisoned: Poisoned, way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    FAILED.clear()
    placed(folder, poisoned.messages)
    # slots of tests have no committer; Spark publishes once whatever a sink asks for
    exactly_once, leaves_out = way.engine == "threads", way.engine != "spark"
    sinks = {
        **file_sinks(folder, exactly_once=exactly_once),
        **sqlite_sinks(folder, leaves_out=leaves_out),
        **postgres_sinks(database, exactly_once=exactly_once, leaves_out=leaves_out),
        **kafka_sinks(broker, exactly_once=exactly_once),
    }
    capsys.readouterr()
    with ExitStack() as stack:
        bad = {
            name: stack.enter_context(open_collected(f"{name}_bad"))
            for name, sink in sinks.items()
            if sink.on_error == "divert"
        }
        run(document(files_source(folder), sinks), way, folder)
        rows = [oracle(message, poisoned.schema) for message in poisoned.messages if not poisoned.is_bad(message)]
        printed = capsys.readouterr().out.encode().split(b"\n")[:-1]
        assert frozen_rows(json_rows(printed, schema_of(NESTED))) == frozen_rows(rows)
        for name, sink in sinks.items():
            check_sink(sink, [row for row in rows if sink.receives(row)], bad.get(name), name)
    check_letters(broker, sinks["kafka_upsert"], poisoned, place_in_files)
    assert not FAILED


def check_sink(sink: PoisonedSink, rows: Sequence[Row], diverted: Collected | None, name: str) -> None:
    refused = [row for row in rows if sink.refuses(row)]
    written = [sink.expected(row) for row in rows if not sink.refuses(row)]
    assert written
    assert frozen_rows(sink.read()) == frozen_rows(written), name
    if sink.on_error is not None:
        assert refused, f"{name} refuses rows"
    if diverted is not None:
        found = [dict(row) for batch in diverted.batches() for row in physical_rows(batch)]
        assert all(row["reason"] for row in found)
        kept = [{column: value for column, value in row.items() if not is_added(column)} for row in found]
        columns = kept[0].keys()
        assert frozen_rows(kept) == frozen_rows([{column: row[column] for column in columns} for row in refused]), name


def is_added(column: str) -> bool:
    return column == "reason" or column.startswith("__")


def check_letters(
    broker: Broker, sink: PoisonedSink, poisoned: Poisoned, place_of_letter: Callable[[Record], tuple[int, int]]
) -> None:
    """A letter for each refused row, with its place; its content where that is not too large."""
    places = {(number % 2, number // 2): message for number, message in enumerate(poisoned.messages)}
    refused = {}
    for place, message in places.items():
        if not poisoned.is_bad(message) and sink.refuses(row := oracle(message, poisoned.schema)):
            refused[place] = row
    letters = {place_of_letter(record): record for record in consume_all(broker, sink.letters)}
    assert letters.keys() == refused.keys()
    for place, record in letters.items():
        if record.value is not None:
            assert json_rows([record.value], poisoned.schema) == [refused[place]]
    assert any(record.value is not None for record in letters.values())


def place_in_files(record: Record) -> tuple[int, int]:
    return place_of(place_in_topic(record)[1])


def place_in_topic(record: Record) -> tuple[int, int]:
    headers = dict(record.headers)
    assert headers["reason"]
    partition, offset = headers["partition"], headers["offset"]
    assert partition is not None
    assert offset is not None
    return int(partition), int(offset)


def frozen_rows(rows: Sequence[Row]) -> Counter[object]:
    return Counter(map(frozen, rows))


def frozen(value: object) -> object:
    """Comparable by value; -0.0 is not 0.0 for columns, and JSON texts keep that."""
    if isinstance(value, Mapping):
        return tuple(sorted((name, frozen(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return tuple(map(frozen, value))
    return repr(value)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.engine)
def test_some_hostile_rows_are_written_or_leave(
    way: Way, broker: EmbeddedBroker, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_soak(tmp_path, broker, database, poisoned_json(23, 120), way, capsys)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.engine)
def test_ten_thousand_hostile_rows_are_written_or_leave(
    way: Way, seed: int, broker: EmbeddedBroker, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_soak(tmp_path, broker, database, poisoned_json(seed, 1_000), way, capsys)


@pytest.mark.parametrize(("seed", "count"), [(23, 120), pytest.param(5, 5_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.engine)
def test_rows_that_tables_refuse_become_letters(
    way: Way, seed: int, count: int, broker: EmbeddedBroker, database: str, tmp_path: Path
) -> None:
    """On the brokers of the source, which is a topic."""
    FAILED.clear()
    poisoned = poisoned_json(seed, count)
    topics = {name: create_topic(broker, unique_topic(name), 2) for name in ("source", "sqlite", "postgres")}
    produce(broker, topics["source"], poisoned.messages, partition=[number % 2 for number in range(count)])
    kafka = {"brokers": broker.bootstrap, "topic": topics["source"], "start": "earliest", "stop": "latest"}
    source = {"kafka": kafka, "format": "json", "schema": NESTED, "on_error": "skip"}
    sinks = dead_letter_sinks(tmp_path, database, topics, exactly_once=way.engine == "threads")
    run(document(source, sinks), way, tmp_path)
    rows = [oracle(message, poisoned.schema) for message in poisoned.messages if not poisoned.is_bad(message)]
    for name, sink in sinks.items():
        check_sink(sink, rows, None, name)
        check_letters(broker, sink, poisoned, place_in_topic)
    assert not FAILED


@pytest.mark.parametrize(
    "name",
    ["files_raw", "sql_append", "postgres_append_skip", "kafka_json", "kafka_upsert", "kafka_csv", "kafka_raw"],
)
def test_where_a_row_fails_the_job_sink_and_row_are_named(
    name: str, broker: EmbeddedBroker, database: str, tmp_path: Path
) -> None:
    """In the middle of others, none of which is named."""
    poisoned = poisoned_json(23, 120)
    found = {
        **file_sinks(tmp_path, exactly_once=False),
        **sqlite_sinks(tmp_path, leaves_out=True),
        **postgres_sinks(database, exactly_once=False, leaves_out=True),
        **kafka_sinks(broker, exactly_once=False),
    }
    sink = replace(found[name], on_error=None)
    if name == "files_raw":
        sink = replace(sink, reads="texts", refuses=lambda row: not is_line(row))
    rows = {message: oracle(message, poisoned.schema) for message in poisoned.messages if not poisoned.is_bad(message)}
    refused = next(message for message, row in rows.items() if sink.refuses(row))
    good = [message for message, row in rows.items() if not sink.refuses(row)]
    placed(tmp_path, [*good[:20], refused, *good[20:40]])
    with pytest.raises(DataError) as caught:
        run(document(files_source(tmp_path), {name: sink}), WAYS[0], tmp_path)
    assert re.match(rf"sink '{name}'[:,] |table \w+ refuses a row: ", str(caught.value))
    assert caught.value.remedy
    number = rows[refused]["n"]
    # PostgreSQL shows the row as it was sent
    shown = f'"{number},' if name.startswith("postgres") else f"'n': {number},"
    if sink.reads == "texts":
        shown = repr(str(rows[refused]["s"])[:50])[1:-1]
    assert shown in str(caught.value)


METADATA = {name: name for name in ("topic", "partition", "offset", "timestamp", "key", "headers")}


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.full)])
def test_an_archive_keeps_hostile_records_as_they_are(count: int, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Also tombstones, keys that are no text, and headers without a value."""
    topic = create_topic(broker, unique_topic("hostile"), 2)
    messages = poisoned_json(count, count).messages
    values = [None if number % 7 == 3 else message for number, message in enumerate(messages)]
    keys = [None if number % 5 == 1 else b"\xff\0" + message[:number] for number, message in enumerate(messages)]
    three: list[list[tuple[str, str | bytes | None]]] = [[("h", None), ("h", each[:9]), ("", b"")] for each in messages]
    headers = [found[: number % 4] for number, found in enumerate(three)]
    produce(broker, topic, values, keys=keys, headers=headers, partition=[number % 2 for number in range(count)])
    kafka = {"brokers": broker.bootstrap, "topic": topic, "stop": "latest", "metadata": METADATA}
    source = {"kafka": kafka, "format": {"raw": {"tombstones": "keep"}}, "schema": {"value": "binary"}}
    names = ("offset", "timestamp", "key", "value")
    right = [
        {name: getattr(record, name) for name in names} | {"headers": list(record.headers)}
        for record in consume_all(broker, topic)
    ]
    for way in WAYS[:2]:
        kept = tmp_path / way.engine
        sink = {"from": "s", "archive": {"path": str(kept)}}
        run({"name": "archive", "parallelism": 2, "sources": {"s": source}, "sinks": {"out": sink}}, way, tmp_path)
        archived = [row for file in kept.rglob("*.parquet") for row in pl.read_parquet(file).to_dicts()]
        assert frozen_rows([row | {"headers": pairs(row["headers"])} for row in archived]) == frozen_rows(right)


def pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers or ()]
