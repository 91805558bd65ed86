"""Moves staged rows into the user's table when their epoch is decided, and records that in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from headrace.connect.sink import Committable, OpenTransaction, SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.tables.staged_parts import StagedBy, StagedPart, part_of, writer_named
from headrace_connectors.sql.tables.statements import (
    count_part,
    delete_all,
    forget_moved,
    insert_all,
    is_by,
    is_part,
    last_of_part,
    note_moved,
    unnote_moved,
    upsert_all,
)
from headrace_connectors.sql.tables.tables import plain, plain_staged
from headrace_connectors.sql.tables.target import ATTEMPT, JOB, PART_COLUMNS, SINK

EPOCHS_KEPT = 1_000
"""Epochs whose records are kept: older ones are never committed again."""


class SqlCommitter:
    """The committer of one sink."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
        self._target, self._key = config.target, config.key
        self._context, self._database = context, database
        self._names = context.schema.names
        self._staged = plain_staged(config.target, self._names)

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Returns the committables unchanged. Raises ExternalError if some of their rows are no longer staged."""
        self._database.run(lambda connection, _: self._check(connection, committables))
        return committables

    def _check(self, connection: sa.Connection, committables: Sequence[Committable]) -> None:
        for committable in committables:
            count = self._count(connection, self._part(committable))
            if count != committable.rows:
                raise self._wrong_count(committable, count)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Moves the rows of all committables in one transaction; skips parts that were moved before. Returns the lost
        committables: their rows are neither staged nor moved."""
        ordered = sorted(committables, key=lambda each: (self._part(each).number, each.subtask))
        if not ordered:
            return ()
        return self._database.run(lambda connection, _: self._move_all(connection, ordered))

    def _move_all(self, connection: sa.Connection, committables: Sequence[Committable]) -> Sequence[Committable]:
        lost = [each for each in committables if not self._move(connection, each)]
        newest = max(each.epoch for each in committables)
        connection.execute(forget_moved(self._target, self._context.job, self._context.node, newest - EPOCHS_KEPT))
        return lost

    def _move(self, connection: sa.Connection, committable: Committable) -> bool:
        """Moves a part; returns whether it is in the table now."""
        part, dialect = self._part(committable), connection.dialect.name
        # first: the insert waits if another committer is moving the same part, and then finds it done
        note = note_moved(dialect, self._target, part, epoch=committable.epoch, rows=committable.rows)
        if connection.execute(note).first() is None:
            return True
        count = self._count(connection, part)
        if count == 0 and committable.rows:
            # a note that stayed would make the next call report the part as moved
            connection.execute(unnote_moved(self._target, part))
            return False
        if count != committable.rows:
            raise self._wrong_count(committable, count)
        table = plain(self._target, self._names)
        if self._key is None:
            connection.execute(insert_all(table, self._staged, self._names, is_part(self._staged, part)))
        else:
            last = last_of_part(self._staged, part, self._names, self._key)
            if committable.payload.get("deletes"):
                connection.execute(delete_all(table, last, self._key))
            connection.execute(upsert_all(dialect, table, last, self._names, key=self._key))
        connection.execute(sa.delete(self._staged).where(is_part(self._staged, part)))
        return True

    def _part(self, committable: Committable) -> StagedPart:
        return part_of(self._context.job, committable)

    def _count(self, connection: sa.Connection, part: StagedPart) -> int:
        return connection.execute(count_part(self._staged, part)).scalar_one()

    def _wrong_count(self, committable: Committable, found: int) -> ExternalError:
        return ExternalError(
            f"{self._database.what}: of {committable.rows} rows staged by {committable.name} {found} are there",
            remedy=f"leave the rows of {self._target.staged} to headrace",
            retry=True,
        )

    def fence(self, names: Sequence[str]) -> None:
        """Deletes rows staged under these names. A live writer may stage more: they are never moved."""
        writers = {writer for name in names if (writer := writer_named(name)) is not None}
        mine = [each for each in writers if (each.job, each.sink) == (self._context.job, self._context.node)]
        if mine:
            statements = [sa.delete(self._staged).where(is_by(self._staged, each)) for each in mine]
            self._database.run(lambda connection, _: [connection.execute(each) for each in statements])

    def sweep(self, attempt: int) -> Sequence[str]:
        """Deletes rows staged by attempts before `attempt`. Never by later ones, because a superseded coordinator may
        call this."""
        staged = self._staged
        old = sa.and_(self._is_of_job(), staged.c[SINK] == self._context.node, staged.c[ATTEMPT] < attempt)

        def sweep(connection: sa.Connection, _: int) -> list[str]:
            writers = {part.name for part in self._parts(connection, old)}
            if writers:
                connection.execute(sa.delete(staged).where(old))
            return sorted(writers)

        return self._database.run(sweep)

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """Staged parts of this sink or, without a job, of all jobs that write into the table."""
        mine = self._is_of_job()
        if self._context.job:
            mine = sa.and_(mine, self._staged.c[SINK] == self._context.node)
        return self._database.run(lambda connection, _: self._parts(connection, mine))

    def _is_of_job(self) -> sa.ColumnElement[bool]:
        job = self._context.job
        return self._staged.c[JOB] == job if job else sa.true()

    def _parts(self, connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[OpenTransaction]:
        columns = [self._staged.c[name] for name in PART_COLUMNS]
        parts = connection.execute(
            sa.select(*columns, sa.func.count()).where(where).group_by(*columns).order_by(*columns)
        )
        return [self._open_part(tuple(row)) for row in parts]

    def _open_part(self, row: tuple[Any, ...]) -> OpenTransaction:
        job, sink, attempt, subtask, part, rows = row
        number, _, tag = part.partition("-")
        return OpenTransaction(
            name=str(StagedBy(job, sink, attempt, subtask)),
            sink=sink,
            job=job,
            attempt=attempt,
            subtask=subtask,
            state=f"{rows} rows staged",
            places=(str(self._target),),
            identity={"attempt": attempt, "number": int(number), "tag": tag},
        )

    def close(self) -> None:
        """Closes the connection."""
        self._database.close()
