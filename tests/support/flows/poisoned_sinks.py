"""Sinks below hostile rows: which rows each of them must refuse, and what it wrote, read back in plain Python."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from headrace.core.types import DataType, Primitive, Schema, schema_of
from support.flows.poison import FLAT, NESTED
from support.kafka.broker import Broker, Record, consume_all, create_topic, unique_topic
from support.oracles.json_messages import oracle

RECORD_BYTES_MAX = 50_000
"""Hostile texts are much longer, or much shorter."""
CONSTRAINT_MAX = 1_000
COLUMNS = "n integer, k text {}, at text, t text, d text, x real, i integer {}, p text, s text, l text, o text"
STEPS = {
    "flat": {"from": "s", "drop": ["l", "o"]},
    "texts": {"from": "s", "select": ["s"]},
    "lines": {"from": "texts", "filter": r"not regexp_matches(coalesce(s, ''), '[\r\n]')"},
}
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n)')
Row = Mapping[str, object]
"""Physical values by column."""
Policy = Literal["skip", "divert", "dead_letter"]


@dataclass(frozen=True)
class PoisonedSink:
    """A sink of the pipeline.

    config    its connector and format in the pipeline file
    read      the rows that it wrote
    reads     the node that it reads
    refuses   whether it cannot write a row
    on_error  None: it has none
    letters   the topic of its dead letters
    expected  a row as it must be read back
    """

    config: Mapping[str, Any]
    read: Callable[[], Sequence[Row]]
    reads: str = "s"
    refuses: Callable[[Row], bool] = lambda _: False
    on_error: Policy | None = None
    letters: str = ""
    expected: Callable[[Row], Row] = field(default=lambda row: row)

    def document(self) -> dict[str, Any]:
        """Its form in the pipeline file."""
        policy: object = {"dead_letter": self.letters} if self.on_error == "dead_letter" else self.on_error
        return {"from": self.reads, **self.config} | ({} if policy is None else {"on_error": policy})


def file_sinks(folder: Path) -> dict[str, PoisonedSink]:
    """Files in every format; rows that are no line are filtered out above."""
    out = {name: folder / "out" / name for name in ("json", "csv", "parquet", "raw")}

    def config(form: str) -> dict[str, Any]:
        return {"files": {"path": str(out[form])}, "format": form}

    return {
        "files_json": PoisonedSink(config("json"), lambda: json_rows(lines_of(out["json"]), schema_of(NESTED))),
        "files_csv": PoisonedSink(config("csv"), lambda: csv_rows(text_of(out["csv"])), "flat", expected=flat),
        "files_parquet": PoisonedSink(config("parquet"), lambda: parquet_rows(out["parquet"])),
        "files_raw": PoisonedSink(
            config("raw"),
            lambda: [{"s": line.decode()} for line in lines_of(out["raw"])],
            "lines",
            expected=lambda row: {"s": row["s"] or ""},
        ),
    }


def sql_sinks(folder: Path, *, leaves_out: bool) -> dict[str, PoisonedSink]:
    """Tables of SQLite: one that stores every row; leaves_out: and two with constraints."""
    url = folder / "rows.db"
    with sqlite3.connect(url) as database:
        database.execute(f"create table plain ({COLUMNS.format('', '')})")
        for name in ("appended", "upserted"):
            limits = COLUMNS.format("not null", f"check (i is null or i < {CONSTRAINT_MAX})")
            database.execute(f"create table {name} ({limits}, unique (n))")
    database.close()

    def config(table: str, **more: object) -> dict[str, Any]:
        return {"sql": {"url": f"sqlite:///{url}", "table": table, **more}}

    plain = {"sql_plain": PoisonedSink(config("plain"), lambda: table_rows(url, "plain"))}
    if not leaves_out:
        return plain
    return plain | {
        "sql_append": PoisonedSink(
            config("appended"), lambda: table_rows(url, "appended"), refuses=breaks_constraints, on_error="skip"
        ),
        "sql_upsert": PoisonedSink(
            config("upserted", mode="upsert", key=["n"]),
            lambda: table_rows(url, "upserted"),
            refuses=breaks_constraints,
            on_error="divert",
        ),
    }


def kafka_sinks(broker: Broker, *, exactly_once: bool) -> dict[str, PoisonedSink]:
    """Topics in every format and mode, with each policy."""
    stem = unique_topic("poison")
    for name in ("json", "upsert", "csv", "raw", "letters"):
        create_topic(broker, f"{stem}-{name}", 2)
    delivery = "exactly-once" if exactly_once else "at-least-once"

    def config(form: str, topic: str, **more: object) -> dict[str, Any]:
        limit = {"message.max.bytes": str(RECORD_BYTES_MAX)}
        fields = {"brokers": broker.bootstrap, "topic": f"{stem}-{topic}", "delivery": delivery, "properties": limit}
        return {"kafka": fields | more, "format": form}

    def read(topic: str) -> Callable[[], Sequence[Row]]:
        return lambda: [keyed(record) for record in consume_all(broker, f"{stem}-{topic}")]

    return {
        "kafka_json": PoisonedSink(config("json", "json", key=["k"]), read("json"), refuses=is_large, on_error="skip"),
        "kafka_upsert": PoisonedSink(
            config("json", "upsert", key=["k"], mode="upsert"),
            read("upsert"),
            refuses=lambda row: is_large(row) or row["k"] is None,
            on_error="dead_letter",
            letters=f"{stem}-letters",
        ),
        "kafka_csv": PoisonedSink(
            config("csv", "csv"),
            lambda: csv_rows(b"".join((record.value or b"") + b"\n" for record in consume_all(broker, f"{stem}-csv"))),
            "flat",
            refuses=is_large,
            on_error="divert",
            expected=flat,
        ),
        "kafka_raw": PoisonedSink(
            config("raw", "raw"),
            lambda: [{"s": (record.value or b"").decode()} for record in consume_all(broker, f"{stem}-raw")],
            "texts",
            refuses=lambda row: len(str(row["s"])) > RECORD_BYTES_MAX,
            on_error="divert",
            expected=lambda row: {"s": row["s"] or ""},
        ),
    }


# ---- what a sink refuses ---------------------------------------------------------------------------------------------


def is_large(row: Row) -> bool:
    """Whether its record is larger than the client may send."""
    return len(str(row["s"])) + len(str(row["k"])) > RECORD_BYTES_MAX


def breaks_constraints(row: Row) -> bool:
    """Whether the table refuses it."""
    number = row["i"]
    return row["k"] is None or (isinstance(number, int) and number >= CONSTRAINT_MAX)


# ---- what a sink wrote -----------------------------------------------------------------------------------------------


def flat(row: Row) -> Row:
    """The columns that CSV can have."""
    return {name: row[name] for name in FLAT}


def keyed(record: Record) -> Row:
    """A JSON record, whose key must be its column `k`."""
    (row,) = json_rows([record.value or b""], schema_of(NESTED))
    assert record.key == (None if row["k"] is None else str(row["k"]).encode())
    return row


def text_of(folder: Path) -> bytes:
    """All parts, one behind the other."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("part-*")))


def lines_of(folder: Path) -> list[bytes]:
    """The lines of all parts. A line ends with a line feed, and with nothing else."""
    return text_of(folder).split(b"\n")[:-1]


def json_rows(lines: Sequence[bytes], schema: Schema) -> list[Row]:
    """A row a line."""
    return [oracle(line, schema) for line in lines]


def csv_rows(text: bytes) -> list[Row]:
    """The records of RFC 4180, with the columns of `FLAT`."""
    schema = schema_of(FLAT)
    found: list[Row] = []
    for record in _records(text.decode()):
        members = [f'"{each.name}":{_json(*value, each.type)}' for each, value in zip(schema, record, strict=True)]
        found.append(oracle(f"{{{','.join(members)}}}".encode(), schema))
    return found


def _records(text: str) -> Iterator[list[tuple[str, bool]]]:
    """Fields, and whether they are quoted."""
    record, place = [], 0
    while place < len(text):
        match = _FIELD.match(text, place)
        assert match is not None, text[place : place + 100]
        quoted, plain, end = match.groups()
        record.append((plain, False) if quoted is None else (quoted.replace('""', '"'), True))
        place = match.end()
        if end == "\n":
            yield record
            record = []
    assert not record


def _json(text: str, quoted: bool, dtype: DataType) -> str:
    if not text and not quoted:
        return "null"
    return text if dtype in {Primitive.INT64, Primitive.FLOAT64} else json.dumps(text)


def parquet_rows(folder: Path) -> list[Row]:
    """The rows of all parts."""
    frames = [pl.read_parquet(path) for path in sorted(folder.glob("part-*"))]
    return [row for frame in frames for row in physical_rows(frame)]


def physical_rows(frame: pl.DataFrame) -> list[Row]:
    """Times and decimals as numbers."""
    return list(frame.select(pl.all().to_physical()).to_dicts())


def table_rows(url: Path, table: str) -> list[Row]:
    """The rows of a table of SQLite."""
    with sqlite3.connect(url) as database:
        found = database.execute(f"select {', '.join(NESTED)} from {table}").fetchall()
    database.close()
    schema = schema_of(NESTED)
    return [oracle(_message(dict(zip(NESTED, values, strict=True))), schema) for values in found]


def _message(values: Mapping[str, object]) -> bytes:
    # lists and structs are JSON there
    texts = {name: value if name in "lo" and value is not None else json.dumps(value) for name, value in values.items()}
    members = [f'"{name}":{text}' for name, text in texts.items()]
    return f"{{{','.join(members)}}}".encode()
