"""Sinks below hostile rows: which rows each of them must refuse, and what it wrote, read back in plain Python."""

from __future__ import annotations

import json
import re
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
STEPS = {
    "flat": {"from": "s", "drop": ["l", "o"]},
    "texts": {"from": "s", "select": ["s"]},
    "lines": {"from": "texts", "filter": r"not regexp_matches(coalesce(s, ''), '[\r\n]')"},
    "without_nul": {"from": "s", "filter": r"not regexp_matches(coalesce(s, '') || coalesce(k, ''), '\x00')"},
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
    receives  whether a row comes through that node
    refuses   whether it cannot write a row
    on_error  None: it has none
    letters   the topic of its dead letters
    expected  a row as it must be read back
    """

    config: Mapping[str, Any]
    read: Callable[[], Sequence[Row]]
    reads: str = "s"
    receives: Callable[[Row], bool] = lambda _: True
    refuses: Callable[[Row], bool] = lambda _: False
    on_error: Policy | None = None
    letters: str = ""
    expected: Callable[[Row], Row] = field(default=lambda row: row)

    def document(self) -> dict[str, Any]:
        """Its form in the pipeline file."""
        policy: object = {"dead_letter": self.letters} if self.on_error == "dead_letter" else self.on_error
        return {"from": self.reads, **self.config} | ({} if policy is None else {"on_error": policy})


def file_sinks(folder: Path, *, exactly_once: bool) -> dict[str, PoisonedSink]:
    """Files in every format; rows that are no line are filtered out above."""
    out = {name: folder / "out" / name for name in ("json", "csv", "parquet", "raw")}
    delivery = delivery_of(exactly_once=exactly_once)

    def config(form: str) -> dict[str, Any]:
        return {"files": {"path": str(out[form]), "delivery": delivery}, "format": form}

    return {
        "files_json": PoisonedSink(config("json"), lambda: json_rows(lines_of(out["json"]), schema_of(NESTED))),
        "files_csv": PoisonedSink(config("csv"), lambda: csv_rows(text_of(out["csv"])), "flat", expected=flat),
        "files_parquet": PoisonedSink(config("parquet"), lambda: parquet_rows(out["parquet"])),
        "files_raw": PoisonedSink(
            config("raw"),
            lambda: [{"s": line.decode()} for line in lines_of(out["raw"])],
            "lines",
            receives=is_line,
            expected=lambda row: {"s": row["s"] or ""},
        ),
    }


def kafka_sinks(broker: Broker, *, exactly_once: bool) -> dict[str, PoisonedSink]:
    """Topics in every format and mode, with each policy."""
    stem = unique_topic("poison")
    for name in ("json", "upsert", "csv", "raw", "letters"):
        create_topic(broker, f"{stem}-{name}", 2)
    delivery = delivery_of(exactly_once=exactly_once)

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


def delivery_of(*, exactly_once: bool) -> str:
    """The field of a sink."""
    return "exactly-once" if exactly_once else "at-least-once"


# ---- what a sink refuses ---------------------------------------------------------------------------------------------


def is_line(row: Row) -> bool:
    """Whether its text is one line."""
    return not {"\r", "\n"} & set(str(row["s"]))


def is_large(row: Row) -> bool:
    """Whether its record is larger than the client may send."""
    return len(str(row["s"])) + len(str(row["k"])) > RECORD_BYTES_MAX


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
