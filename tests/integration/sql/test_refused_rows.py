"""Rows that a table refuses are left out with their reasons, and the others are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connect.row_check import Refused
from headrace.core.batch import O_MINOR, OP
from headrace.core.errors import DataError
from headrace.core.types import schema_of
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace
from support.storage.sql_tables import Sink, Tables

SCHEMA = schema_of({"k": "string", "n": "int64", "text": "string"})
TABLE = "CREATE TABLE results (k VARCHAR(5) PRIMARY KEY, n BIGINT NOT NULL CHECK (n < 10), text TEXT)"
MODES = [("append", None), ("upsert", ["k"])]


class Refusals:
    """What a writer refused."""

    def __init__(self) -> None:
        self.reasons: dict[Any, str] = {}
        self.columns: list[str] = []

    def __call__(self, rows: pl.DataFrame, refused: Refused) -> None:
        if refused:
            self.columns = rows.columns
        self.reasons |= {rows.get_column("n")[row]: refusal.why for row, refusal in refused.items()}


def written(sink: Sink, refuse: Refusals, *batches: list[tuple[Any, ...]], deletes: list[bool] | None = None) -> None:
    writer = sink.writer(refuse=refuse)
    for rows in batches:
        batch = sink.batch(rows, deletes)
        batch.rows.insert_column(0, pl.Series(O_MINOR, range(len(rows)), dtype=pl.Int64))
        writer.write(batch)
    committables = writer.flush(1)
    writer.close()
    if sink.config.exactly_once:
        assert list(sink.commit(committables)) == []


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize(("mode", "key"), MODES)
def test_each_bad_row_is_found(tables: Tables, delivery: str, mode: str, key: list[str] | None) -> None:
    tables.run(TABLE)
    sink = tables.sink(SCHEMA, delivery=delivery, mode=mode, key=key)
    bad: list[tuple[Any, ...]] = [("big", 77, "x"), ("none", None, "x")]
    if tables.dialect == "postgresql":
        bad += [("too long", -1, "x"), ("nul", -2, "a\0b")]
    good = [(f"k{n}", n, "x") for n in range(9)]
    refuse = Refusals()

    written(sink, refuse, [*good[:3], bad[0], *good[3:5], *bad[1:]], good[5:])

    assert sorted(tables.rows("results", "k, n, text")) == good
    assert refuse.reasons.keys() == {n for _, n, _ in bad}
    assert all("the table refuses a row" in why or " refuses a row: " in why for why in refuse.reasons.values())
    assert O_MINOR in refuse.columns
    assert [name for name in refuse.columns if name.startswith("__")] == [O_MINOR]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_the_last_good_row_of_a_key_is_written_and_deletes_are_not_bad(tables: Tables, delivery: str) -> None:
    tables.run(TABLE, "INSERT INTO results VALUES ('gone', 1, 'x'), ('kept', 1, 'x')")
    sink = tables.sink(SCHEMA, delivery=delivery, mode="upsert", key=["k"])
    refuse = Refusals()
    rows = [("a", 1, "x"), ("a", 2, "x"), ("a", 99, "x"), ("gone", None, None), (None, 5, "x"), ("kept", 88, "x")]

    written(sink, refuse, rows, deletes=[False, False, False, True, False, False])

    assert sorted(tables.rows("results", "k, n, text")) == [("a", 2, "x"), ("kept", 1, "x")]
    assert refuse.reasons.keys() == {99, 5, 88}
    assert "a row has no key (k is NULL)" in refuse.reasons[5]
    assert OP in refuse.columns


def test_a_fault_of_the_table_is_no_fault_of_the_rows(tables: Tables) -> None:
    tables.run(TABLE)
    sink = tables.sink(SCHEMA, delivery="at-least-once")
    tables.run("DROP TABLE results")
    refuse = Refusals()
    with pytest.raises(Exception, match="results") as raised:
        written(sink, refuse, [("a", 1, "x"), ("b", 2, "x")])
    assert not isinstance(raised.value, DataError)
    assert refuse.reasons == {}


PIPELINE = """\
name: {name}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: "{source}", start: earliest, stop: latest}}
    format: json
    schema: {{k: string, n: int64, text: string}}
sinks:
  out:
    from: rows
    sql: {{url: "{url}", table: results, delivery: {delivery}}}
    on_error: {on_error}
"""
KEPT = """\
  kept:
    from: out.bad
    sql: {{url: "{url}", table: kept, delivery: {delivery}, create_table: true}}
"""


@pytest.mark.broker
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_run_leaves_rows_out(tables: Tables, broker: EmbeddedBroker, tmp_path: Path, delivery: str) -> None:
    tables.run(TABLE)
    source, dead = (create_topic(broker, unique_topic(name), 1) for name in ("i", "d"))
    rows = [{"k": f"k{n}", "n": n, "text": "x"} for n in range(12)]
    produce(broker, source, [json.dumps(row) for row in rows])

    def run(on_error: str, more: str = "") -> dict[str, Any]:
        tables.run("DELETE FROM results")
        names = {"url": tables.url, "delivery": delivery}
        text = PIPELINE.format(
            name=unique_topic("p"), brokers=broker.bootstrap, source=source, on_error=on_error, **names
        )
        (tmp_path / "p.yaml").write_text(text + more.format(**names))
        done = headrace(["run", "p.yaml", "--json"], tmp_path)
        assert done.code == 0, done.err
        assert sorted(tables.rows("results", "n")) == [(n,) for n in range(10)]
        return {name: done.json[name] for name in ("rows_in", "rows_out", "bad")}

    assert run("skip") == {"rows_in": 12, "rows_out": 10, "bad": 2}
    assert run(f"{{dead_letter: {dead}}}") == {"rows_in": 12, "rows_out": 10, "bad": 2}
    letters = consume_all(broker, dead)
    assert [json.loads(letter.value or b"")["n"] for letter in letters] == [10, 11]
    assert [dict(letter.headers)["offset"] for letter in letters] == [b"10", b"11"]
    run("divert", KEPT)
    kept = sorted(tables.rows("kept", "n, reason"))
    assert [n for n, _ in kept] == [10, 11]
    assert all("refuses a row" in reason for _, reason in kept)
