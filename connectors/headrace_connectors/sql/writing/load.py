"""Inserts rows into a table by the database's fastest method, inside of the caller's transaction. Values are
converted whole columns at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import polars as pl
import psycopg
import sqlalchemy as sa
from psycopg import sql

from headrace.core.errors import DataError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.json.encode import encode_json_object
from headrace_connectors.sql.tables.tables import plain
from headrace_connectors.sql.tables.target import Target

_MICROSECONDS = "%Y-%m-%d %H:%M:%S%.6f"


def load(connection: sa.Connection, target: Target, rows: pl.DataFrame, schema: Schema) -> None:
    """Inserts all rows into the columns with their names.

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
