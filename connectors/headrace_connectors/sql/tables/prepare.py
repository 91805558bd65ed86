"""Checks once, before any writer opens, that the tables fit the rows; creates those that may be created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.schema import CreateTable, DropTable

from headrace.connect.sink import SinkContext
from headrace.core.errors import UserError
from headrace.core.types import Field
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.tables.column_types import holds, made_type
from headrace_connectors.sql.tables.tables import create_statement, made_epochs, made_staged, made_table
from headrace_connectors.sql.tables.target import STAGED_COLUMNS, Target

_Columns = Mapping[str, ReflectedColumn]


def prepare_tables(config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
    """Raises UserError with the statements that correct the tables; Unreachable if no database answers."""
    database.run(lambda connection, _: _prepare(config, context, connection))


def _prepare(config: SqlSinkSettings, context: SinkContext, connection: sa.Connection) -> None:
    dialect = connection.dialect.name
    columns = _columns(connection, config.target)
    if columns is None:
        table = made_table(config.target, context.schema, config.key, dialect)
        if not config.create_table:
            raise UserError(
                f"sink {context.node!r}: there is no table {config.target}",
                remedy=f"set `create_table: true`, or create it:\n{create_statement(table, connection.dialect)}",
            )
        connection.execute(CreateTable(table, if_not_exists=True))
        columns = _columns(connection, config.target) or {}
    problems = [
        *_column_problems(config, context, columns, dialect),
        *_extra_problems(context, columns),
        *_key_problems(config, connection),
    ]
    if problems:
        shown = [message for message, _ in problems]
        fixes = [fix for _, fix in problems]
        raise UserError(f"sink {context.node!r}: table {config.target}: " + "; ".join(shown), remedy="\n  ".join(fixes))
    if config.exactly_once:
        _prepare_staged(config, connection, columns)


def _columns(connection: sa.Connection, target: Target) -> _Columns | None:
    """The table's columns by name; None if the table does not exist."""
    inspector = sa.inspect(connection)
    try:
        return {item["name"]: item for item in inspector.get_columns(target.table, schema=target.schema)}
    except sa.exc.NoSuchTableError:
        return None


def _column_problems(
    config: SqlSinkSettings, context: SinkContext, columns: _Columns, dialect: str
) -> Iterator[tuple[str, str]]:
    """Columns of the rows that the table lacks, or has with another type: problem and remedy."""
    for item in context.schema:
        wanted = _type_name(item, dialect)
        found = columns.get(item.name)
        if found is None:
            yield (
                f"column {item.name!r} is missing",
                f'ALTER TABLE {config.target} ADD COLUMN "{item.name}" {wanted};',
            )
        elif not holds(found["type"], item.type, dialect):
            yield (
                f"column {item.name!r} is {_shown(found['type'])}, and the rows have {item.type}",
                f'ALTER TABLE {config.target} ALTER COLUMN "{item.name}" TYPE {wanted}; or cast it in a step',
            )


def _extra_problems(context: SinkContext, columns: _Columns) -> Iterator[tuple[str, str]]:
    """Required columns of the table that the rows lack."""
    for name, found in columns.items():
        made_by_itself = found.get("default") is not None or found.get("autoincrement") is True
        made_by_itself |= "identity" in found or "computed" in found
        if name not in context.schema and not found["nullable"] and not made_by_itself:
            yield f"column {name!r} is NOT NULL without a default, and the rows have no such column", f"select {name!r}"


def _key_problems(config: SqlSinkSettings, connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """A key without a unique constraint: ON CONFLICT needs one on exactly these columns."""
    if config.key is None or frozenset(config.key) in set(_unique_sets(connection, config.target)):
        return
    names = ", ".join(f'"{name}"' for name in config.key)
    yield (
        f"no unique constraint is on exactly ({', '.join(config.key)})",
        f"CREATE UNIQUE INDEX ON {config.target} ({names});"
        if connection.dialect.name == "postgresql"
        else f"CREATE UNIQUE INDEX {config.target.table}_key ON {config.target} ({names});",
    )


def _unique_sets(connection: sa.Connection, target: Target) -> Iterator[frozenset[str]]:
    inspector, place = sa.inspect(connection), {"schema": target.schema}
    yield frozenset(inspector.get_pk_constraint(target.table, **place)["constrained_columns"])
    for constraint in inspector.get_unique_constraints(target.table, **place):
        yield frozenset(constraint["column_names"])
    for index in inspector.get_indexes(target.table, **place):
        whole = not any(name.endswith("_where") for name in index.get("dialect_options", {}))
        if index["unique"] and whole and None not in index["column_names"]:
            yield frozenset(name for name in index["column_names"] if name is not None)


def _prepare_staged(config: SqlSinkSettings, connection: sa.Connection, columns: _Columns) -> None:
    """Creates the staging table, or adapts it to the user's table; creates the table of moved parts."""
    known = [
        sa.Column(item["name"], item["type"])
        for item in columns.values()
        if not isinstance(item["type"], sa.types.NullType)
    ]
    made = made_staged(config.target, known)
    connection.execute(CreateTable(made_epochs(config.target), if_not_exists=True))
    connection.execute(CreateTable(made, if_not_exists=True))
    there = _columns(connection, config.target.staged) or {}
    dialect = connection.dialect
    if all(
        _same(there.get(column.name), column, dialect) for column in made.columns if column.name not in STAGED_COLUMNS
    ):
        return
    if connection.execute(sa.select(sa.exists(sa.select(sa.literal(1)).select_from(made)))).scalar_one():
        raise UserError(
            f"{config.target} has other columns than when the rows in {config.target.staged} were staged",
            remedy=f"let the jobs that write into it end with the columns of before, or drop {config.target.staged}, "
            "which loses the rows in it",
        )
    connection.execute(DropTable(made))
    connection.execute(CreateTable(made))


def _same(there: ReflectedColumn | None, wanted: sa.Column[Any], dialect: sa.Dialect) -> bool:
    if there is None:
        return False
    return there["type"].compile(dialect=dialect) == wanted.type.compile(dialect=dialect)


def _type_name(item: Field, dialect: str) -> str:
    return _shown(made_type(item.type, dialect))


def _shown(column: sa.types.TypeEngine[Any]) -> str:
    try:
        return str(column)
    except sa.exc.UnsupportedCompilationError:
        return type(column).__name__
