"""Classifies a database's errors: user or external, the remedy, and whether a retry may succeed.

PostgreSQL's errors are classified by SQLSTATE, SQLite's by result code, those of others by SQLAlchemy's exceptions.
"""

from __future__ import annotations

import sqlite3

import psycopg
from sqlalchemy import exc

from headrace.core.errors import DataError, ExternalError, HeadraceError, UnreachableError, UserError

_TRANSIENT = ("08", "57P", "40001", "40P01", "55P03", "53300", "25006", "57014")
"""SQLSTATE prefixes: connections, shutdown, serialization, deadlock, lock timeout, too many connections, a standby,
cancelled."""
_SQLITE_TRANSIENT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_PASSING_WORDS = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "connection slots",
    "terminating",
    "accepting",
)
"""Words in transient refusals of a login."""

DatabaseErrors = (exc.SQLAlchemyError, psycopg.Error, sqlite3.Error)
"""All exceptions that a statement may raise."""


def is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed: no answer, or a conflict with another transaction."""
    cause = _driver_error(error)
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate is not None:
            return cause.sqlstate.startswith(_TRANSIENT)
        # no SQLSTATE: the server is unavailable or was lost; but a rejected login has no state either
        return isinstance(cause, psycopg.OperationalError) and not _refuses_login(cause)
    if isinstance(cause, sqlite3.Error):
        return _sqlite_code(cause) in _SQLITE_TRANSIENT
    if isinstance(error, exc.DBAPIError):
        return error.connection_invalidated or isinstance(error, exc.OperationalError)
    return isinstance(error, exc.TimeoutError)


def is_duplicate(error: BaseException) -> bool:
    """Whether a unique constraint rejected a row."""
    cause = _driver_error(error)
    if isinstance(cause, psycopg.Error):
        # unique_violation
        return cause.sqlstate == "23505"
    return isinstance(cause, sqlite3.IntegrityError) and _sqlite_code(cause) == sqlite3.SQLITE_CONSTRAINT


def translated(error: BaseException, what: str) -> HeadraceError:
    """The error as one of headrace; `what` names the operation (`sink 'out' and table delays`)."""
    cause = _driver_error(error)
    if is_transient(error):
        return UnreachableError(
            f"{what}: the database does not answer: {_said(cause)}",
            remedy="start it, or look at host, port and network",
        )
    if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
        return UserError(
            f"{what}: the database refuses the login: {_said(cause)}",
            remedy="correct user, password and database in `url:`",
        )
    if isinstance(cause, psycopg.Error) and cause.sqlstate is not None:
        return _of_postgres(cause, cause.sqlstate, what)
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause, what)
    if isinstance(error, exc.IntegrityError | exc.DataError):
        return DataError(f"{what}: the table refuses a row: {_said(cause)}", remedy=_REFUSED_ROW)
    if isinstance(error, exc.NoSuchModuleError):
        return UserError(f"{what}: SQLAlchemy knows no such dialect: {_said(error)}", remedy="correct `url:`")
    return ExternalError(f"{what}: {_said(cause)}")


_REFUSED_ROW = "filter or correct such rows before the sink, or change the table"


def _of_postgres(cause: psycopg.Error, state: str, what: str) -> HeadraceError:
    said = _said(cause)
    # integrity constraint violation, data exception, an index entry too large, a trigger that raises
    if state.startswith(("23", "22")) or state in {"54000", "P0001"}:
        return DataError(f"{what}: the table refuses a row: {said}", remedy=_REFUSED_ROW)
    # invalid authorization specification
    if state.startswith("28"):
        return UserError(
            f"{what}: the database refuses the login: {said}", remedy="correct user and password in `url:`"
        )
    # invalid_catalog_name: there is no such database
    if state == "3D000":
        return UserError(f"{what}: {said}", remedy="create the database, or correct `url:`")
    # insufficient_privilege
    if state == "42501":
        return UserError(
            f"{what}: {said}",
            remedy="grant this user SELECT, INSERT, UPDATE and DELETE on the sink's tables, and CREATE on their schema",
        )
    # undefined table, column, schema
    if state in {"42P01", "42703", "3F000"}:
        return UserError(
            f"{what}: {said}", remedy="the table was changed while it was written: put it right, run again"
        )
    # insufficient resources, system error
    return ExternalError(f"{what}: {said}", retry=state.startswith(("53", "58")))


def _of_sqlite(cause: sqlite3.Error, what: str) -> HeadraceError:
    said, code = _said(cause), _sqlite_code(cause)
    if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG) or isinstance(
        cause, sqlite3.DataError
    ):
        return DataError(f"{what}: the table refuses a row: {said}", remedy=_REFUSED_ROW)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return UserError(f"{what}: {said}", remedy="allow this user to write the file and its folder")
    if code == sqlite3.SQLITE_CANTOPEN:
        return UserError(f"{what}: {said}", remedy="make the folder of the file, or correct `url:`")
    if code == sqlite3.SQLITE_NOTADB:
        return UserError(f"{what}: {said}", remedy="correct `url:`")
    return ExternalError(f"{what}: {said}", retry=code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR))


def _driver_error(error: BaseException) -> BaseException:
    """The driver's exception, without SQLAlchemy's wrapping, which would add statements and values."""
    if isinstance(error, exc.DBAPIError) and error.orig is not None:
        return error.orig
    return error


def _refuses_login(cause: psycopg.Error) -> bool:
    """Whether the server permanently rejects the login. Only its message shows that."""
    _, fatal, words = str(cause).partition("FATAL:")
    return bool(fatal) and not any(each in words for each in _PASSING_WORDS)


def _sqlite_code(cause: sqlite3.Error) -> int | None:
    """The primary result code; None if the driver, not the database, raised the error."""
    code: int | None = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _said(cause: BaseException) -> str:
    """The database's own message, on one line."""
    if isinstance(cause, psycopg.Error) and cause.diag.message_primary:
        parts = [cause.diag.message_primary, cause.diag.message_detail, cause.diag.context]
        return "; ".join(" ".join(part.split()) for part in parts if part)
    return " ".join(str(cause).split())
