"""Writes rows to a table. `DirectWriter`: at least once, in transactions of many rows, the last one at the barrier.
`StagingWriter`: exactly once; rows are committed into the staging table of their epoch, and the committer moves them.

`StagingWriter` finds the rows that the user's table would refuse by a trial. PostgreSQL tries them in a temporary table
with the columns and checks of the user's, because rows that are written and rolled back would leave dead rows in the
table itself. Unique and foreign keys are not tried there. SQLite cannot copy a table's definition, so the rows are
written and rolled back.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence

import polars as pl
import psycopg
import sqlalchemy as sa
from psycopg import sql

from headrace.connect.row_check import Refusal, Refused, failing_rows
from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.errors import DataError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.json.encode import encode_json_object
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.failures import DatabaseErrors, is_duplicate, is_transient, translated
from headrace_connectors.sql.tables.staged_parts import StagedBy, StagedPart
from headrace_connectors.sql.tables.statements import delete_all, is_part, upsert_all
from headrace_connectors.sql.tables.tables import plain, plain_staged
from headrace_connectors.sql.tables.target import DELETE, PART_COLUMNS, SEQUENCE, Target
from headrace_connectors.sql.writing.row_buffer import RowBuffer, refuse, with_keys, without

Put = Callable[[sa.Connection, pl.DataFrame], None]
"""Writes rows, in the caller's transaction. Raises the driver's exceptions, or DataError."""


def put_by_halves(connection: sa.Connection, rows: pl.DataFrame, put: Put, what: str, *, keep: bool) -> Refused:
    """Writes the rows that the table accepts, in order; returns the others. Raises errors that no row causes.

    keep   False: nothing stays written
    """

    def tried(begin: int, length: int) -> Refusal | None:
        savepoint = connection.begin_nested()
        try:
            put(connection, rows.slice(begin, length))
        except (DataError, *DatabaseErrors) as error:
            data_error = error if isinstance(error, DataError) else translated(error, what)
            if not isinstance(data_error, DataError):
                raise
            savepoint.rollback()
            return Refusal(data_error.message, data_error.remedy or "")
        if keep:
            savepoint.commit()
        else:
            savepoint.rollback()
        return None

    return failing_rows(rows.height, tried)


_ARRIVED = Target("__headrace_rows")
"""A temporary table, for this connection only, that receives the rows of an upsert."""


class TableRows:
    """The rows of one sink."""

    def __init__(self, config: SqlSinkSettings, schema: Schema) -> None:
        self._target, self._key, self._schema = config.target, config.key, schema

    def put(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        """Writes buffered rows into the table: all of them, or the last one of each key."""
        names = self._schema.names
        if self._key is None:
            load(connection, self._target, rows.select(names), self._schema)
        else:
            last = rows.unique(subset=list(self._key), keep="last", maintain_order=True)
            self._upsert(connection, last.select(*names, DELETE))

    def _upsert(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        assert self._key is not None
        schema, dialect = self._schema, connection.dialect.name
        table, arrived = plain(self._target, schema.names), plain(_ARRIVED, (*schema.names, DELETE))
        connection.exec_driver_sql(_temporary(connection, table))
        load(connection, _ARRIVED, rows, schema)
        if rows.get_column(DELETE).any():
            connection.execute(delete_all(table, arrived, self._key))
        connection.execute(upsert_all(dialect, table, arrived, schema.names, key=self._key))
        connection.execute(sa.delete(arrived))


def _temporary(connection: sa.Connection, table: sa.TableClause) -> str:
    """The statement that creates the temporary table, with the types of the user's table."""
    columns = sa.select(*table.c, sa.true().label(DELETE)).where(sa.false())
    options = " ON COMMIT DELETE ROWS" if connection.dialect.name == "postgresql" else ""
    select = columns.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    return f'CREATE TEMPORARY TABLE IF NOT EXISTS "{_ARRIVED.table}"{options} AS {select}'


class DirectWriter:
    """Writes the rows of one subtask."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
        self._key, self._dialect = config.key, config.dialect
        self._table = TableRows(config, context.schema)
        self._context, self._database = context, database
        self._buffer = RowBuffer(context.schema.names, whole=context.refuse is not None)

    def write(self, batch: SinkBatch) -> None:
        """Buffers rows; stores them when the buffer is due."""
        self._buffer.add(batch)
        if self._buffer.is_due:
            self._store()

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every row is committed in the table."""
        self._store()
        return ()

    def _store(self) -> None:
        rows = self._buffer.taken()
        if not rows.height:
            return
        if self._key is not None:
            rows = with_keys(self._context, rows, self._key, dialect=self._dialect)
        refused = self._database.run(lambda connection, _: self._stored(connection, rows))
        refuse(self._context, rows, refused)

    def _stored(self, connection: sa.Connection, rows: pl.DataFrame) -> Refused:
        """Stores rows; returns those that the table refuses, if they may be left out."""
        if self._context.refuse is None:
            self._table.put(connection, rows)
            return {}
        return put_by_halves(connection, rows, self._table.put, self._database.what, keep=True)

    def close(self) -> None:
        """Discards rows that were not flushed."""
        self._buffer.taken()
        self._database.close()


_COPY = Target("__headrace_trial")


class StagingWriter:
    """Stages the rows of one subtask. A part may take several transactions; `flush` closes it."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
        self._config, self._context, self._database = config, context, database
        self._buffer = RowBuffer(context.schema.names, whole=context.refuse is not None)
        self._trial = Trial(config, context.schema, database.what)
        self._part = StagedPart(StagedBy.of(context), 0, uuid.uuid4().hex[:16])
        self._rows = 0
        self._deletes = 0
        self._lock = threading.Lock()
        self._pending: list[Committable] = []

    def write(self, batch: SinkBatch) -> None:
        """Buffers rows; stages them when the buffer is due."""
        self._buffer.add(batch)
        if self._buffer.is_due:
            self._stage()

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every row is committed in the staging table, with all parts that are not known to be visible."""
        self._stage()
        with self._lock:
            if self._rows:
                self._pending.append(self._closed_part(epoch))
            return tuple(self._pending)

    def _closed_part(self, epoch: int) -> Committable:
        part = self._part
        closed = Committable(
            sink=self._context.node,
            subtask=self._context.subtask,
            epoch=epoch,
            payload=part.payload | {"deletes": self._deletes},
            name=str(part.writer),
            rows=self._rows,
        )
        self._part = StagedPart(part.writer, part.number + 1, part.tag)
        self._rows = self._deletes = 0
        return closed

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Forgets visible parts."""
        with self._lock:
            self._pending = [each for each in self._pending if each.epoch > epoch]

    def _stage(self) -> None:
        rows = self._buffer.taken()
        if not rows.height:
            return
        if self._config.key is not None:
            rows = with_keys(self._context, rows, self._config.key, dialect=self._config.dialect)
        # a try with an unknown outcome may still succeed while the next one runs: its rows are then duplicates
        refused = self._database.run(
            lambda connection, number: self._staged(connection, rows, again=number > 0),
            again=lambda error: is_transient(error) or is_duplicate(error),
        )
        refuse(self._context, rows, refused)
        staged = without(rows, refused)
        self._rows += staged.height
        self._deletes += int(staged.get_column(DELETE).sum())

    def _staged(self, connection: sa.Connection, rows: pl.DataFrame, *, again: bool) -> Refused:
        """Stages rows; returns those that the table will refuse, if they may be left out."""
        refused: Refused = {}
        if self._context.refuse is not None:
            refused = self._trial.refused(connection, rows)
            rows = without(rows, refused)
        if not rows.height:
            return refused
        staged = rows.select(
            *(pl.lit(value).alias(name) for name, value in zip(PART_COLUMNS, self._part.values, strict=True)),
            pl.int_range(self._rows, self._rows + rows.height, dtype=pl.Int64).alias(SEQUENCE),
            *self._context.schema.names,
            DELETE,
        )
        self._load(connection, staged, again=again)
        return refused

    def _load(self, connection: sa.Connection, rows: pl.DataFrame, *, again: bool) -> None:
        if again:
            # the previous try may have been committed after all: its rows have these sequence numbers
            table = plain_staged(self._config.target, ())
            connection.execute(sa.delete(table).where(is_part(table, self._part), table.c[SEQUENCE] >= self._rows))
        load(connection, self._config.target.staged, rows, self._context.schema)

    def close(self) -> None:
        """Discards rows that were not flushed; a later attempt sweeps the staged ones."""
        self._buffer.taken()
        self._database.close()


class Trial:
    """The trials of one writer. what: its name in errors."""

    def __init__(self, config: SqlSinkSettings, schema: Schema, what: str) -> None:
        self._target, self._schema, self._what = config.target, schema, what
        self._table = TableRows(config, schema)

    def refused(self, connection: sa.Connection, rows: pl.DataFrame) -> Refused:
        """The buffered rows that the table refuses for themselves."""
        if connection.dialect.name != "postgresql":
            return put_by_halves(connection, rows, self._table.put, self._what, keep=False)
        # a delete has only a key
        numbers = (~rows.get_column(DELETE)).arg_true()
        connection.exec_driver_sql(self._made_copy(connection))
        refusals = put_by_halves(connection, rows[numbers], self._put_into_copy, self._what, keep=False)
        return {numbers[row]: refusal for row, refusal in refusals.items()}

    def _made_copy(self, connection: sa.Connection) -> str:
        names = connection.dialect.identifier_preparer
        copy, table = (names.format_table(plain(each, ())) for each in (_COPY, self._target))
        parts = " ".join(f"INCLUDING {part}" for part in ("CONSTRAINTS", "DEFAULTS", "GENERATED", "IDENTITY"))
        return f"CREATE TEMPORARY TABLE {copy} (LIKE {table} {parts}) ON COMMIT DROP"

    def _put_into_copy(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        load(connection, _COPY, rows.select(self._schema.names), self._schema)


# ---- fast inserts ----------------------------------------------------------------------------------------------------


_MICROSECONDS = "%Y-%m-%d %H:%M:%S%.6f"


def load(connection: sa.Connection, target: Target, rows: pl.DataFrame, schema: Schema) -> None:
    """Inserts all rows into the columns with their names by the database's fastest method, inside of the caller's
    transaction. Values are converted whole columns at a time.

    schema  of the user's columns; others are numbers, texts and bools. Raises the driver's exceptions, and
    DataError with the row if the driver does not name it.
    """
    _LOADERS.get(connection.dialect.name, _insert_objects)(connection, target, rows, schema)


def _copy(connection: sa.Connection, target: Target, rows: pl.DataFrame, schema: Schema) -> None:
    """PostgreSQL: COPY."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    place = [target.table] if target.schema is None else [target.schema, target.table]
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')").format(
        sql.Identifier(*place), sql.SQL(", ").join(sql.Identifier(name) for name in rows.columns)
    )
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(as_csv(rows, schema))


def _insert_sqlite(connection: sa.Connection, target: Target, rows: pl.DataFrame, schema: Schema) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    changed = driver.total_changes
    try:
        driver.executemany(_insert(connection, target, rows.columns), as_sqlite(rows, schema))
    except sqlite3.IntegrityError as cause:
        # every row before it counts as one change
        row = rows.row(driver.total_changes - changed, named=True)
        shown = {name: row[name] for name in schema.names}
        raise DataError(
            f"table {target} refuses a row: {cause}: {shown}",
            remedy="filter or correct such rows before the sink, or change the table",
        ) from cause


def _insert_objects(connection: sa.Connection, target: Target, rows: pl.DataFrame, schema: Schema) -> None:
    names = rows.columns
    values = [dict(zip(names, row, strict=True)) for row in as_objects(rows, schema)]
    connection.execute(sa.insert(plain(target, names)), values)


def _insert(connection: sa.Connection, target: Target, names: Sequence[str]) -> str:
    return str(sa.insert(plain(target, names)).compile(dialect=connection.dialect))


_Loader = Callable[[sa.Connection, Target, pl.DataFrame, Schema], None]
_LOADERS: dict[str, _Loader] = {"postgresql": _copy, "sqlite": _insert_sqlite}


def as_csv(rows: pl.DataFrame, schema: Schema) -> bytes:
    """Rows as CSV for PostgreSQL's COPY: NULL is empty, an empty text is quoted.

    Columns outside of the schema are unchanged: they are numbers, texts and bools.
    """
    shown = rows.with_columns([_as_text(rows.get_column(item.name), item.type) for item in schema])
    return shown.write_csv(None, include_header=False, quote_style="non_numeric").encode()


def as_sqlite(rows: pl.DataFrame, schema: Schema) -> list[tuple[object, ...]]:
    """Rows as values that SQLite stores unchanged; times are ISO 8601 in UTC, as its own functions parse them."""
    return rows.with_columns([_as_sqlite(rows.get_column(item.name), item.type) for item in schema]).rows()


def as_objects(rows: pl.DataFrame, schema: Schema) -> list[tuple[object, ...]]:
    """Rows as Python values for any other driver; times in UTC without a zone."""
    return rows.with_columns([_as_object(rows.get_column(item.name), item.type) for item in schema]).rows()


def _as_text(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.strftime(f"{_MICROSECONDS}+00")
        case Primitive.BINARY:
            return _series("\\x" + pl.col(column.name).bin.encode("hex"), column)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive() | Decimal():
            return column


def _as_sqlite(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.strftime(_MICROSECONDS)
        case Primitive.DATE:
            return column.dt.strftime("%Y-%m-%d")
        case Decimal():
            return column.cast(pl.String)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive():
            return column


def _as_object(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.replace_time_zone(None)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive() | Decimal():
            return column


def _json_texts(column: pl.Series) -> pl.Series:
    """Each value as JSON, as the json format writes it inside of a row; NULL stays NULL."""
    objects = pl.from_arrow(encode_json_object(column.alias("v").to_frame(), ("v",)))
    assert isinstance(objects, pl.Series)
    texts = objects.cast(pl.String).str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.select(pl.when(column.is_not_null()).then(texts).alias(column.name)).to_series()


def _series(value: pl.Expr, column: pl.Series) -> pl.Series:
    return column.to_frame().select(value.alias(column.name)).to_series()
