"""Names, values, statements and errors of the sql sink without a database; and rows into one that it does not know."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import psycopg
import pytest
import sqlalchemy as sa

from headrace.connect.sink import Committable, SinkBatch
from headrace.core.batch import OP
from headrace.core.errors import DataError, ExternalError, HeadraceError, UnreachableError, UserError
from headrace.core.types import schema_of
from headrace_connectors.sql.failures import is_transient, translated
from headrace_connectors.sql.tables.staged_parts import StagedBy, StagedPart, part_of, writer_named
from headrace_connectors.sql.tables.statements import delete_all, last_of_part, note_moved, upsert_all
from headrace_connectors.sql.tables.tables import create_statement, made_table, plain, plain_staged
from headrace_connectors.sql.tables.target import DELETE, Target
from headrace_connectors.sql.writing import row_buffer
from headrace_connectors.sql.writing.row_buffer import RowBuffer
from headrace_connectors.sql.writing.writers import _insert_objects, as_csv, as_objects

SCHEMA = schema_of({"at": "timestamp", "l": "[int64]", "raw": "binary", "d": "date", "n": "decimal(4,2)"})
MOMENT = datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
ROWS = pl.DataFrame(
    [(MOMENT, [1], b"\x01", date(2024, 1, 2), Decimal("1.5")), (None,) * 5], schema=SCHEMA.polars(), orient="row"
)
POSTGRES, SQLITE = (sa.make_url(url).get_dialect()() for url in ("postgresql+psycopg://", "sqlite://"))
PART = StagedPart(StagedBy("job-1-2", "late.bad", 3, 4), 5, "0a")


def test_names_are_read_back() -> None:
    assert str(PART.writer) == "headrace-job-1-2-late.bad-3-4"
    assert writer_named(str(PART.writer)) == PART.writer
    assert [writer_named(name) for name in ("headrace-job-3-4", "mine-job-sink-3-4", "")] == [None] * 3
    made = Committable("late.bad", 4, 7, PART.payload, name=str(PART.writer))
    assert part_of("job-1-2", made) == PART


def test_rows_as_csv_and_as_objects() -> None:
    assert as_csv(ROWS, SCHEMA) == (b'"2024-01-02 03:04:05.000006+00","[1]","\\x01","2024-01-02",1.50\n,,,,\n')
    first, second = as_objects(ROWS, SCHEMA)
    assert first == (MOMENT.replace(tzinfo=None), "[1]", b"\x01", date(2024, 1, 2), Decimal("1.50"))
    assert second == (None,) * 5


def test_create_statements_quote_what_needs_it() -> None:
    schema = schema_of({"k": "string not null", 'a "b" 100%:c': "int64", "l": "[int64]", "n": "decimal(4,2)"})
    made = {
        dialect.name: " ".join(
            create_statement(made_table(Target("t", "s"), schema, ["k"], dialect.name), dialect).split()
        )
        for dialect in (POSTGRES, SQLITE)
    }
    assert made["postgresql"] == (
        'CREATE TABLE s.t ( k TEXT NOT NULL, "a ""b"" 100%:c" BIGINT, l JSONB, n NUMERIC(4, 2), PRIMARY KEY (k) );'
    )
    assert made["sqlite"] == (
        'CREATE TABLE s.t ( k TEXT NOT NULL, "a ""b"" 100%:c" BIGINT, l JSON, n TEXT, PRIMARY KEY (k) );'
    )


def shown(statement: sa.ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=POSTGRES, compile_kwargs={"literal_binds": True})).split())


def test_the_last_row_per_key_is_put_and_deleted() -> None:
    table = plain(Target("t"), ("k", "n"))
    last = last_of_part(plain_staged(Target("t"), ("k", "n")), PART, ("k", "n"), ["k"])
    assert shown(upsert_all("postgresql", table, last, ("k", "n"), key=["k"])).endswith(
        "WHERE last.__delete IS false ON CONFLICT (k) DO UPDATE SET n = excluded.n"
    )
    assert shown(upsert_all("postgresql", table, last, ("k",), key=["k"])).endswith("ON CONFLICT (k) DO NOTHING")
    text = shown(delete_all(table, last, ["k"]))
    assert text.startswith("DELETE FROM t WHERE (t.k) IN (SELECT last.k FROM (SELECT")
    assert "row_number() OVER (PARTITION BY t__headrace_staged.k ORDER BY t__headrace_staged.__sequence DESC)" in text
    assert "__part = '5-0a'" in text


def test_what_was_moved_is_noted_once() -> None:
    note = note_moved("sqlite", Target("t"), PART, epoch=9, rows=2)
    assert isinstance(note, sa.ClauseElement)
    text = " ".join(str(note.compile(dialect=SQLITE)).split())
    assert "ON CONFLICT (job, sink, attempt, subtask, part) DO NOTHING" in text


class TestBuffer:
    def batch(self, numbers: range, deletes: list[bool | None] | None = None) -> SinkBatch:
        rows = pl.DataFrame({"n": list(numbers), "__ts": [0] * len(numbers)})
        return SinkBatch(rows if deletes is None else rows.with_columns(pl.Series(OP, deletes, dtype=pl.Boolean)))

    def test_rows_come_out_in_order_with_their_deletes(self) -> None:
        buffer = RowBuffer(["n"], whole=False)
        buffer.add(self.batch(range(2)))
        buffer.add(self.batch(range(0)))
        buffer.add(self.batch(range(2, 5), [True, None, False]))
        taken = buffer.taken()
        assert taken.to_dict(as_series=False) == {"n": [0, 1, 2, 3, 4], DELETE: [False, False, True, False, False]}
        assert buffer.taken().height == 0
        assert not buffer.is_due

    @pytest.mark.parametrize(("bound", "value"), [("ROWS_MAX", 5), ("BYTES_MAX", 40), ("LINGER_S", 0.0)])
    def test_it_is_bounded(self, bound: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_buffer, "LINGER_S", 3_600.0)
        buffer = RowBuffer(["n"], whole=False)
        buffer.add(self.batch(range(2)))
        assert not buffer.is_due
        buffer.add(self.batch(range(4)))
        assert not buffer.is_due
        monkeypatch.setattr(row_buffer, bound, value)
        assert buffer.is_due
        buffer.taken()
        assert not buffer.is_due


class TestOtherDatabases:
    @pytest.fixture
    def connection(self) -> Iterator[sa.Connection]:
        engine = sa.create_engine("sqlite://")
        with engine.begin() as connection:
            yield connection
        engine.dispose()

    def test_rows_are_inserted_as_objects(self, connection: sa.Connection) -> None:
        """SQLAlchemy does it all; SQLite stands for any database."""
        schema = schema_of({"k": "string", 'n "%:x': "int64", "l": "[string]"})
        connection.execute(sa.schema.CreateTable(made_table(Target("t"), schema, None, "mysql")))
        rows = pl.DataFrame([("a", 1, ["x"]), (None, None, None)], schema=schema.polars(), orient="row")
        _insert_objects(connection, Target("t"), rows, schema)
        assert connection.exec_driver_sql("SELECT * FROM t").fetchall() == [("a", 1, '["x"]'), (None, None, None)]


def refused(state: str) -> psycopg.Error:
    return psycopg.errors.lookup(state)("refused")


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        (refused("40001"), UnreachableError, True),
        (refused("57P01"), UnreachableError, True),
        (refused("53300"), UnreachableError, True),
        (psycopg.OperationalError("connection failed: Connection refused"), UnreachableError, True),
        (psycopg.OperationalError("failed: FATAL:  the database system is starting up"), UnreachableError, True),
        (psycopg.OperationalError("failed: FATAL:  password authentication failed"), UserError, False),
        (refused("23505"), DataError, False),
        (refused("22003"), DataError, False),
        (refused("28P01"), UserError, False),
        (refused("42501"), UserError, False),
        (refused("42P01"), UserError, False),
        (refused("53100"), ExternalError, True),
        (refused("XX000"), ExternalError, False),
        (sqlite3.DataError("too big"), DataError, False),
        (sa.exc.TimeoutError("no connection"), UnreachableError, True),
        (sa.exc.IntegrityError("INSERT secret", {}, Exception("duplicate")), DataError, False),
        (sa.exc.OperationalError("INSERT secret", {}, Exception("gone")), UnreachableError, True),
    ],
)
def test_errors_are_translated(error: Exception, kind: type[HeadraceError], retry: bool) -> None:
    found = translated(error, "sink 'out', table t")
    assert type(found) is kind
    assert found.retry == retry
    assert is_transient(error) == (kind is UnreachableError)
    assert found.message.startswith("sink 'out', table t: ")
    assert "secret" not in str(found)
    assert found.remedy or kind is ExternalError
