"""Builds the statements that change the user's table from another table. PostgreSQL and SQLite share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headrace_connectors.sql.tables.staged_parts import StagedBy, StagedPart
from headrace_connectors.sql.tables.tables import EPOCH, EPOCH_PART_COLUMNS, ROWS, plain_epochs
from headrace_connectors.sql.tables.target import DELETE, PART_COLUMNS, SEQUENCE, Target

Source = sa.TableClause | sa.Subquery
Truth = sa.ColumnElement[bool]


def insert_all(into: sa.TableClause, source: Source, columns: Sequence[str], where: Truth) -> sa.Insert:
    """Appends the rows of `source`, in the order of writing if the source has one."""
    rows = sa.select(*(source.c[name] for name in columns)).where(where)
    if SEQUENCE in source.c:
        rows = rows.order_by(source.c[SEQUENCE])
    return sa.insert(into).from_select(list(columns), rows)


def upsert_all(
    dialect: str, into: sa.TableClause, source: Source, columns: Sequence[str], *, key: Sequence[str]
) -> sa.Insert:
    """Replaces rows with the same key by the rows of `source` that are not deletes; `source` has one row per key."""
    rows = sa.select(*(source.c[name] for name in columns)).where(source.c[DELETE].is_(sa.false()))
    others = [name for name in columns if name not in key]
    statement = _insert(dialect, into).from_select(list(columns), rows)
    if not others:
        return statement.on_conflict_do_nothing(index_elements=list(key))
    return statement.on_conflict_do_update(
        index_elements=list(key), set_={name: statement.excluded[name] for name in others}
    )


def delete_all(into: sa.TableClause, source: Source, key: Sequence[str]) -> sa.Delete:
    """The statement that deletes the rows whose key is a delete in `source`."""
    gone = sa.select(*(source.c[name] for name in key)).where(source.c[DELETE].is_(sa.true()))
    return sa.delete(into).where(sa.tuple_(*(into.c[name] for name in key)).in_(gone))


def last_of_part(staged: sa.TableClause, part: StagedPart, columns: Sequence[str], key: Sequence[str]) -> sa.Subquery:
    """The last row per key of a part."""
    rank = sa.func.row_number().over(partition_by=[staged.c[name] for name in key], order_by=staged.c[SEQUENCE].desc())
    ranked = sa.select(*(staged.c[name] for name in columns), staged.c[DELETE], rank.label("__rank")).where(
        is_part(staged, part)
    )
    inner = ranked.subquery("ranked")
    return sa.select(*(inner.c[name] for name in (*columns, DELETE))).where(inner.c["__rank"] == 1).subquery("last")


def is_part(staged: sa.TableClause, part: StagedPart) -> Truth:
    """Whether a staged row belongs to the part."""
    return sa.and_(*(staged.c[name] == value for name, value in zip(PART_COLUMNS, part.values, strict=True)))


def is_by(staged: sa.TableClause, writer: StagedBy) -> Truth:
    """Whether a staged row was written by this writer."""
    values = (writer.job, writer.sink, writer.attempt, writer.subtask)
    return sa.and_(*(staged.c[name] == value for name, value in zip(PART_COLUMNS[:4], values, strict=True)))


def count_part(staged: sa.TableClause, part: StagedPart) -> sa.Select[int]:
    """The number of staged rows of the part."""
    return sa.select(sa.func.count()).select_from(staged).where(is_part(staged, part))


def note_moved(dialect: str, target: Target, part: StagedPart, *, epoch: int, rows: int) -> sa.Executable:
    """Records that a part was moved, and returns a row; changes nothing and returns no row if that is recorded
    already."""
    values: dict[str, Any] = dict(zip(EPOCH_PART_COLUMNS, part.values, strict=True)) | {EPOCH: epoch, ROWS: rows}
    epochs = plain_epochs(target)
    statement = _insert(dialect, epochs).values(values).on_conflict_do_nothing(index_elements=list(EPOCH_PART_COLUMNS))
    # not the row count: not every driver reports it for an insert
    return statement.returning(epochs.c[EPOCH])


def unnote_moved(target: Target, part: StagedPart) -> sa.Delete:
    """Deletes the record of `note_moved`."""
    epochs = plain_epochs(target)
    same = (epochs.c[name] == value for name, value in zip(EPOCH_PART_COLUMNS, part.values, strict=True))
    return sa.delete(epochs).where(*same)


def forget_moved(target: Target, job: str, sink: str, before_epoch: int) -> sa.Delete:
    """Deletes the records of epochs below `before_epoch`."""
    epochs = plain_epochs(target)
    return sa.delete(epochs).where(epochs.c["job"] == job, epochs.c["sink"] == sink, epochs.c[EPOCH] < before_epoch)


def _insert(dialect: str, into: sa.TableClause) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(into) if dialect == "postgresql" else sqlite.insert(into)
