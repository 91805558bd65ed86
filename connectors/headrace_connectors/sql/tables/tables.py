"""The three tables of a sink as SQLAlchemy objects: for creating, loading and querying them.

Two forms of each: `made_*` have types, for CREATE TABLE; `plain` ones have none, so that values reach the driver
unchanged (`writing.writers` has converted them).
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from headrace.core.types import Schema
from headrace_connectors.sql.tables.column_types import made_type
from headrace_connectors.sql.tables.target import (
    ATTEMPT,
    DELETE,
    JOB,
    PART,
    PART_COLUMNS,
    SEQUENCE,
    SINK,
    STAGED_COLUMNS,
    SUBTASK,
    Target,
)

EPOCH, ROWS, MOVED_AT = "epoch", "rows", "moved_at"
EPOCH_PART_COLUMNS = ("job", "sink", "attempt", "subtask", "part")
"""As `PART_COLUMNS`, for a table that users read."""

_PART_TYPES: dict[str, sa.types.TypeEngine[str] | sa.types.TypeEngine[int]] = {
    JOB: sa.Text(),
    SINK: sa.Text(),
    ATTEMPT: sa.Integer(),
    SUBTASK: sa.Integer(),
    PART: sa.Text(),
}


def plain(target: Target, columns: Sequence[str]) -> sa.TableClause:
    """The table, for building statements."""
    return sa.table(target.table, *(sa.column(name) for name in columns), schema=target.schema)


def plain_staged(target: Target, columns: Sequence[str]) -> sa.TableClause:
    """The staging table of `target`, with these of the user's columns."""
    return plain(target.staged, (*STAGED_COLUMNS, *columns))


def plain_epochs(target: Target) -> sa.TableClause:
    """The table of moved parts."""
    return plain(target.epochs, (*EPOCH_PART_COLUMNS, EPOCH, ROWS, MOVED_AT))


def made_table(target: Target, schema: Schema, key: Sequence[str] | None, dialect: str) -> sa.Table:
    """The user's table as we create it: the rows' columns, and in upsert mode the key as primary key."""
    columns = [
        sa.Column(
            item.name,
            made_type(item.type, dialect),
            nullable=item.nullable and item.name not in (key or ()),
            autoincrement=False,
        )
        for item in schema
    ]
    keys = [sa.PrimaryKeyConstraint(*key)] if key else []
    return sa.Table(target.table, sa.MetaData(), *columns, *keys, schema=target.schema)


def made_staged(target: Target, columns: Sequence[sa.Column[object]]) -> sa.Table:
    """The staging table: the columns of a part, and the user's `columns` with their types and without their
    constraints."""
    parts = [sa.Column(name, kind, nullable=False, autoincrement=False) for name, kind in _PART_TYPES.items()]
    return sa.Table(
        target.staged.table,
        sa.MetaData(),
        *parts,
        sa.Column(SEQUENCE, sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column(DELETE, sa.Boolean(), nullable=False),
        *(sa.Column(item.name, item.type, nullable=True) for item in columns),
        sa.PrimaryKeyConstraint(*PART_COLUMNS, SEQUENCE),
        schema=target.schema,
    )


def made_epochs(target: Target) -> sa.Table:
    """The table of moved parts."""
    names = dict(zip(EPOCH_PART_COLUMNS, _PART_TYPES.values(), strict=True))
    return sa.Table(
        target.epochs.table,
        sa.MetaData(),
        *(sa.Column(name, kind, nullable=False, autoincrement=False) for name, kind in names.items()),
        sa.Column(EPOCH, sa.BigInteger(), nullable=False),
        sa.Column(ROWS, sa.BigInteger(), nullable=False),
        sa.Column(MOVED_AT, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.current_timestamp()),
        sa.PrimaryKeyConstraint(*EPOCH_PART_COLUMNS),
        schema=target.schema,
    )


def create_statement(table: sa.Table, dialect: sa.Dialect) -> str:
    """CREATE TABLE as a user may run it, and as we do."""
    text = str(CreateTable(table).compile(dialect=dialect))
    # SQLAlchemy doubles percent signs, for drivers that read them as parameters
    return text.strip().replace("%%", "%") + ";"
