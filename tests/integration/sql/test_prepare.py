"""What is wrong with a table is said before the first row, with the statement that puts it right."""

from __future__ import annotations

import socket
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import HeadraceError, UnreachableError, UserError
from headrace.core.types import Schema, schema_of
from headrace_connectors.sql import SqlSinkConfig
from support.storage.postgres import Postgres
from support.storage.sql_tables import Sink, Tables

SCHEMA = schema_of({"k": "string not null", "n": "int64"})
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["k"]}


def refusal(tables: Tables, schema: Schema = SCHEMA, **fields: Any) -> UserError:
    with pytest.raises(UserError) as raised:
        tables.sink(schema, **fields)
    return raised.value


def test_a_missing_table_comes_with_its_statement(tables: Tables) -> None:
    error = refusal(tables, create_table=False, **UPSERT)
    assert "there is no table results" in error.message
    assert error.remedy is not None
    assert "create_table: true" in error.remedy
    tables.run(error.remedy.split("create it:\n")[1])

    tables.sink(SCHEMA, create_table=False, **UPSERT)


def test_a_table_is_made_with_its_key(tables: Tables) -> None:
    tables.sink(SCHEMA, **UPSERT, delivery="exactly-once")
    tables.sink(SCHEMA, **UPSERT, delivery="exactly-once")
    tables.run("INSERT INTO results (k, n) VALUES ('a', 1)")
    with pytest.raises(Exception, match=r"(?i)unique"):
        tables.run("INSERT INTO results (k, n) VALUES ('a', 2)")
    assert tables.count("headrace_epochs") == tables.count("results__headrace_staged") == 0


def test_missing_and_wrong_columns_are_named_together(tables: Tables) -> None:
    tables.run("CREATE TABLE results (n TEXT, other INTEGER NOT NULL, free INTEGER, made INTEGER NOT NULL DEFAULT 1)")
    error = refusal(tables)
    assert error.message.startswith(
        "sink 'out': table results: column 'k' is missing; column 'n' is TEXT, and the rows have int64; "
        "column 'other' is NOT NULL without a default"
    )
    assert error.remedy is not None
    assert 'ALTER TABLE results ADD COLUMN "k" TEXT;' in error.remedy


def columns_of(types: list[tuple[str, str]]) -> tuple[Schema, str]:
    """The rows' schema and the table's columns, one each a pair."""
    ours = schema_of({f"c{number}": our for number, (our, _) in enumerate(types)})
    return ours, ", ".join(f"c{number} {their}" for number, (_, their) in enumerate(types))


def test_types_that_lose_something_are_refused(postgres_tables: Tables) -> None:
    types = [
        ("int32", "smallint"),
        ("int64", "integer"),
        ("int64", "numeric(18, 0)"),
        ("int64", "double precision"),
        ("float64", "real"),
        ("float64", "numeric"),
        ("decimal(10,2)", "numeric(10, 1)"),
        ("decimal(10,2)", "double precision"),
        ("timestamp", "date"),
        ("date", "timestamp"),
        ("binary", "text"),
        ("string", "bytea"),
        ("bool", "integer"),
        ("[int64]", "bigint[]"),
    ]
    schema, columns = columns_of(types)
    postgres_tables.run(f"CREATE TABLE results ({columns})")
    with pytest.raises(UserError) as raised:
        postgres_tables.sink(schema)
    assert [name for name in schema.names if f"column {name!r} is" not in raised.value.message] == []


def test_types_that_hold_everything_are_taken(postgres_tables: Tables) -> None:
    types = [
        ("int32", "bigint"),
        ("int64", "numeric"),
        ("float32", "double precision"),
        ("decimal(10,2)", "numeric(12, 4)"),
        ("timestamp", "timestamp(6) without time zone"),
        ("string", "varchar(10)"),
        ("string", "uuid"),
        ("{a: int64}", "text"),
        ("[int64]", "json"),
    ]
    schema, columns = columns_of(types)
    postgres_tables.run(f"CREATE TABLE results ({columns})")
    postgres_tables.sink(schema, delivery="exactly-once")


@pytest.mark.parametrize(
    ("ours", "theirs", "keys"),
    [
        ("int64", "REAL", [2**53, 2**53 + 1]),
        ("int64", "FLOAT", [2**53, 2**53 + 1]),
        ("decimal(18,1)", "NUMERIC", [Decimal("12345678901234567.1"), Decimal("12345678901234567.2")]),
        ("decimal(18,1)", "REAL", [Decimal("12345678901234567.1"), Decimal("12345678901234567.2")]),
    ],
)
def test_numbers_that_sqlite_would_round_to_one_key_are_refused(
    tmp_path: Path, ours: str, theirs: str, keys: list[object]
) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
    schema = schema_of({"k": ours, "n": "int64"})
    tables.run(f"CREATE TABLE results (k {theirs} PRIMARY KEY, n BIGINT)")
    assert f"column 'k' is {theirs}" in refusal(tables, schema, **UPSERT).message

    tables.run("DROP TABLE results")
    sink = tables.sink(schema, create_table=True, **UPSERT)
    writer = sink.writer()
    writer.write(sink.batch([(key, number) for number, key in enumerate(keys)]))
    writer.flush(1)
    writer.close()
    assert [n for (n,) in tables.rows("results", "n")] == [0, 1]
    tables.close()


def test_decimals_of_few_digits_are_numbers_in_sqlite(tmp_path: Path) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
    tables.run("CREATE TABLE results (k NUMERIC(15, 2) PRIMARY KEY, n BIGINT)")
    tables.sink(schema_of({"k": "decimal(15,2)", "n": "int64"}), **UPSERT)
    tables.close()


def test_upsert_needs_a_unique_constraint_on_the_key(tables: Tables) -> None:
    tables.run(
        "CREATE TABLE results (k TEXT, n BIGINT, PRIMARY KEY (k, n))",
        "CREATE UNIQUE INDEX partly ON results (k) WHERE n > 5",
    )
    error = refusal(tables, **UPSERT)
    assert "no unique constraint is on exactly (k)" in error.message
    assert error.remedy is not None

    tables.run(error.remedy)

    tables.sink(SCHEMA, **UPSERT)


def test_the_staging_table_follows_the_table(tables: Tables) -> None:
    tables.sink(SCHEMA, delivery="exactly-once")
    tables.run("ALTER TABLE results ADD COLUMN more TEXT")
    wider = schema_of({"k": "string", "n": "int64", "more": "string"})
    sink = tables.sink(wider, delivery="exactly-once")
    writer = sink.writer()
    writer.write(sink.batch([("a", 1, "x")]))
    committables = writer.flush(1)
    writer.close()

    tables.run("ALTER TABLE results ADD COLUMN still TEXT")
    with pytest.raises(UserError, match="has other columns than when the rows"):
        sink.prepared()
    sink.commit(committables)
    sink.prepared()

    assert tables.rows("results", "k, n, more, still") == [("a", 1, "x", None)]


class TestOutside:
    def failure(self, url: str, **fields: Any) -> HeadraceError:
        config = SqlSinkConfig.model_validate({"url": url, "table": "results"} | fields)
        with pytest.raises(HeadraceError) as raised:
            Sink(config, SCHEMA).prepared()
        shown = f"{raised.value} {raised.value.__cause__!r}"
        assert "hush" not in shown
        return raised.value

    def test_a_wrong_password(self, postgres: Postgres) -> None:
        error = self.failure(postgres.url(password="hush"))
        assert isinstance(error, UserError)
        assert "password authentication failed" in error.message

    def test_a_database_that_is_not_there(self, postgres: Postgres) -> None:
        error = self.failure(postgres.url("nowhere"))
        assert isinstance(error, UserError)
        assert 'database "nowhere" does not exist' in error.message

    def test_nobody_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace_connectors.sql.client.PATIENCE_S", 0.0)
        # bound, but nobody listens: nobody else can take the port meanwhile
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            error = self.failure(f"postgresql://headrace:hush@127.0.0.1:{taken.getsockname()[1]}/flights")
        assert isinstance(error, UnreachableError)
        assert error.retry

    def test_permissions_are_asked_for(self, postgres: Postgres, postgres_tables: Tables) -> None:
        database = postgres_tables.url.rpartition("/")[2]
        user = f"guest_{database}"
        postgres_tables.run(
            f"CREATE USER {user} PASSWORD 'hush'",
            "CREATE TABLE results (k text, n bigint)",
            "CREATE TABLE headrace_epochs (job text)",
        )
        guest = Tables(postgres.url(database, user=user, password="hush"))
        sink = guest.sink(SCHEMA)
        writer = sink.writer()
        writer.write(sink.batch([("a", 1)]))
        with pytest.raises(UserError, match="permission denied for table results") as raised:
            writer.flush(1)
        writer.close()
        guest.close()
        assert raised.value.remedy is not None
        assert "grant this user" in raised.value.remedy
        error = self.failure(guest.url, delivery="exactly-once")
        assert "permission denied for schema public" in error.message

    def test_no_such_schema(self, postgres_tables: Tables) -> None:
        error = self.failure(postgres_tables.url, table="nowhere.results", create_table=True)
        assert 'schema "nowhere" does not exist' in error.message

    def test_a_file_in_no_folder(self, tmp_path: Path) -> None:
        error = self.failure(f"sqlite:///{tmp_path}/nowhere/tables.db")
        assert isinstance(error, UserError)
        assert "unable to open" in error.message

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "text.db").write_text("not a database, but a text " * 100)
        error = self.failure(f"sqlite:///{tmp_path}/text.db")
        assert "not a database" in error.message

    def test_a_dialect_that_nobody_knows(self) -> None:
        error = self.failure("nonsense://user:hush@host/database")
        assert isinstance(error, UserError)
        assert "nonsense" in error.message

    def test_a_url_that_cannot_be_read(self) -> None:
        error = self.failure("postgresql://user:hush@host:port/database")
        assert isinstance(error, UserError)
        assert error.remedy == "correct `url:`"


def test_open_files_of_sqlite_are_closed(tmp_path: Path) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
    sink = tables.sink(SCHEMA, delivery="exactly-once")
    writer, committer = sink.writer(), sink.committer()
    writer.write(sink.batch([("a", 1)]))
    committer.commit(writer.flush(1))
    writer.close()
    writer.close()
    committer.close()
    committer.close()
    assert str(tmp_path / "tables.db") not in {name_of(path) for path in Path("/proc/self/fd").iterdir()}


def name_of(opened: Path) -> str:
    """Empty: it has just been closed."""
    try:
        return str(opened.readlink())
    except OSError:
        return ""
