"""Stages rows for their epoch, exactly once: they are committed into the staging table, and the committer moves
them.

Rows that the user's table would refuse are found beforehand, by a trial. PostgreSQL tries them in a temporary table
with the columns and checks of the user's: rows that are written and rolled back would leave dead ones in the table
itself. Unique and foreign keys are not tried there. SQLite has no copy of a table; there the rows are written and
rolled back.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence

import polars as pl
import sqlalchemy as sa

from headrace.connect.row_check import Refused
from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.types import Schema
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.failures import is_duplicate, is_transient
from headrace_connectors.sql.tables.staged_parts import StagedBy, StagedPart
from headrace_connectors.sql.tables.statements import is_part
from headrace_connectors.sql.tables.tables import plain, plain_staged
from headrace_connectors.sql.tables.target import DELETE, PART_COLUMNS, SEQUENCE, Target
from headrace_connectors.sql.writing.halves import put_by_halves
from headrace_connectors.sql.writing.load import load
from headrace_connectors.sql.writing.row_buffer import RowBuffer, refuse, with_keys, without
from headrace_connectors.sql.writing.table_rows import TableRows

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
        found = put_by_halves(connection, rows[numbers], self._put_into_copy, self._what, keep=False)
        return {numbers[row]: refusal for row, refusal in found.items()}

    def _made_copy(self, connection: sa.Connection) -> str:
        names = connection.dialect.identifier_preparer
        copy, table = (names.format_table(plain(each, ())) for each in (_COPY, self._target))
        parts = " ".join(f"INCLUDING {part}" for part in ("CONSTRAINTS", "DEFAULTS", "GENERATED", "IDENTITY"))
        return f"CREATE TEMPORARY TABLE {copy} (LIKE {table} {parts}) ON COMMIT DROP"

    def _put_into_copy(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        load(connection, _COPY, rows.select(self._schema.names), self._schema)
