"""Finds the rows that a table refuses: the statement is repeated for halves of them, in savepoints."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import sqlalchemy as sa

from headrace.connect.row_check import Refusal, Refused, failing_rows
from headrace.core.errors import DataError
from headrace_connectors.sql.failures import DatabaseErrors, translated

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
            told = error if isinstance(error, DataError) else translated(error, what)
            if not isinstance(told, DataError):
                raise
            savepoint.rollback()
            return Refusal(told.message, told.remedy or "")
        if keep:
            savepoint.commit()
        else:
            savepoint.rollback()
        return None

    return failing_rows(rows.height, tried)
