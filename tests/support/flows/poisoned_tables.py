"""Tables below hostile rows, of SQLite and PostgreSQL: which rows each must refuse, and what is in it afterwards."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from headrace.core.types import schema_of
from support.flows.poison import NESTED
from support.flows.poisoned_sinks import PoisonedSink, Policy, Row, delivery_of, json_rows
from support.oracles.json_messages import oracle
from support.storage.sql_tables import Tables

CONSTRAINT_MAX = 1_000
_OF_SQLITE = "n integer, k text {}, at text, t text, d text, x real, i integer {}, p text, s text, l text, o text"
_OF_POSTGRES = (
    "n bigint, k text {}, at timestamptz, t timestamptz, d date, x float8, i bigint {}, p numeric(12, 2), s text, "
    "l jsonb, o jsonb"
)
_LIMITS = ("not null", f"check (i is null or i < {CONSTRAINT_MAX})")


def sqlite_sinks(folder: Path, *, leaves_out: bool) -> dict[str, PoisonedSink]:
    """Tables of SQLite: one that stores every row; leaves_out: and two with constraints."""
    url = folder / "rows.db"
    with closing(sqlite3.connect(url)) as database, database:
        for statement in _statements(_OF_SQLITE, ("appended", "upserted")):
            database.execute(statement)

    def sink(table: str, **more: object) -> PoisonedSink:
        config = {"sql": {"url": f"sqlite:///{url}", "table": table, **more}}
        return PoisonedSink(config, lambda: sqlite_rows(url, table), expected=in_sqlite)

    plain = {"sql_plain": sink("plain")}
    if not leaves_out:
        return plain
    upserted = sink("upserted", mode="upsert", key=["n"])
    return plain | {
        "sql_append": replace(sink("appended"), refuses=breaks_constraints, on_error="skip"),
        "sql_upsert": replace(upserted, refuses=breaks_constraints, on_error="divert"),
    }


def postgres_sinks(url: str, *, exactly_once: bool, leaves_out: bool) -> dict[str, PoisonedSink]:
    """Tables of PostgreSQL: one below a filter, that stores every row; leaves_out: and others with constraints, which
    are appended to and upserted, with each policy that needs no Kafka.
    """
    tables = tuple(f"{mode}_{policy}" for mode in ("append", "upsert") for policy in ("skip", "divert"))
    with closing(Tables(url)) as database:
        database.run(*_statements(_OF_POSTGRES, tables if leaves_out else ()))
    plain = _postgres_sink(url, "plain", exactly_once=exactly_once)
    found = {"postgres_plain": replace(plain, reads="without_nul", receives=lambda row: not has_nul(row))}
    if leaves_out:
        for table in tables:
            policy: Policy = "skip" if table.endswith("skip") else "divert"
            sink = _postgres_sink(url, table, exactly_once=exactly_once)
            found[f"postgres_{table}"] = replace(sink, refuses=refused_by_postgres, on_error=policy)
    return found


def dead_letter_sinks(
    folder: Path, url: str, topics: Mapping[str, str], *, exactly_once: bool
) -> dict[str, PoisonedSink]:
    """A table of each kind with constraints, whose refused rows go to a topic. topics: by kind."""
    sqlite = sqlite_sinks(folder, leaves_out=True)["sql_upsert"]
    with closing(Tables(url)) as database:
        database.run(*_statements(_OF_POSTGRES, ("append_letters",)))
    postgres = replace(_postgres_sink(url, "append_letters", exactly_once=exactly_once), refuses=refused_by_postgres)
    return {
        kind: replace(sink, on_error="dead_letter", letters=topics[kind])
        for kind, sink in (("sqlite", sqlite), ("postgres", postgres))
    }


def _statements(columns: str, limited: Sequence[str]) -> list[str]:
    """That create the table `plain`, and those with constraints."""
    limits = columns.format(*_LIMITS)
    plain = f"create table plain ({columns.format('', '')})"
    return [plain, *(f"create table {name} ({limits}, unique (n))" for name in limited)]


def _postgres_sink(url: str, table: str, *, exactly_once: bool) -> PoisonedSink:
    by_key = {"mode": "upsert", "key": ["n"]} if table.startswith("upsert") else {}
    config = {"url": url, "table": table, "delivery": delivery_of(exactly_once=exactly_once), **by_key}
    return PoisonedSink({"sql": config}, lambda: postgres_rows(url, table))


# ---- what a table refuses --------------------------------------------------------------------------------------------


def breaks_constraints(row: Row) -> bool:
    """Whether a table with constraints refuses it."""
    number = row["i"]
    return row["k"] is None or (isinstance(number, int) and number >= CONSTRAINT_MAX)


def has_nul(row: Row) -> bool:
    """Whether it has a text that PostgreSQL cannot hold."""
    return any("\0" in str(row[name]) for name in ("k", "s"))


def refused_by_postgres(row: Row) -> bool:
    """Whether a table of PostgreSQL with constraints refuses it."""
    return breaks_constraints(row) or has_nul(row)


# ---- what is in a table ----------------------------------------------------------------------------------------------


def in_sqlite(row: Row) -> Row:
    """A row as SQLite holds it: a zero in a REAL column has no sign."""
    return {**row, "x": 0.0 if row["x"] == 0 else row["x"]}


def sqlite_rows(url: Path, table: str) -> list[Row]:
    """The rows of a table of SQLite."""
    with closing(sqlite3.connect(url)) as database:
        found = database.execute(f"select {', '.join(NESTED)} from {table}").fetchall()
    schema = schema_of(NESTED)
    return [oracle(_message(dict(zip(NESTED, values, strict=True))), schema) for values in found]


def _message(values: Mapping[str, object]) -> bytes:
    # lists and structs are JSON there
    texts = {name: value if name in "lo" and value is not None else json.dumps(value) for name, value in values.items()}
    members = [f'"{name}":{text}' for name, text in texts.items()]
    return f"{{{','.join(members)}}}".encode()


def postgres_rows(url: str, table: str) -> list[Row]:
    """The rows of a table of PostgreSQL, as it writes them as JSON."""
    with closing(Tables(url)) as database:
        found = database.rows(table, f"row_to_json({table})::text, x")
    rows = json_rows([line.encode() for line, _ in found], schema_of(NESTED))
    # its JSON shows -0.0 as -0, which is read as a whole number
    return [{**row, "x": x} for row, (_, x) in zip(rows, found, strict=True)]
