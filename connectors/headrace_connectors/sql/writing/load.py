"""Inserts rows into a table by the database's fastest method, inside of the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import polars as pl
import psycopg
import sqlalchemy as sa
from psycopg import sql

from headrace.core.errors import DataError
from headrace.core.types import Schema
from headrace_connectors.sql.tables.tables import plain
from headrace_connectors.sql.tables.target import Target
from headrace_connectors.sql.writing.values import as_csv, as_objects, as_sqlite


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
