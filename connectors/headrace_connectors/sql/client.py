"""A database as a sink uses it: transactions that wait out what passes by itself. The one module that makes engines.

Knows no tables.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from headrace.core.errors import UserError
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.failures import DatabaseErrors, is_transient, translated

LOG = logging.getLogger(__name__)
PATIENCE_S = 15.0
"""How long a transaction is tried again while the database is away."""
_PAUSE_S, _PAUSE_MAX_S = 0.1, 2.0
_SQLITE_WAIT_S = 30.0
"""How long SQLite waits for the lock that another writer holds."""
_POSTGRES = {
    "connect_timeout": "10",
    "application_name": "headrace",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A server that is gone without a word is noticed within half a minute. What the URL says comes first."""

_Result = TypeVar("_Result")


class Database:
    """One connection to a database, made when it is needed and again when it was lost. Used by one thread at a time."""

    def __init__(self, engine: sa.Engine, what: str, patience_s: float) -> None:
        self.engine = engine
        self.what = what
        """Who uses it for what, as errors say it."""
        self._patience_s = patience_s

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of it."""
        return self.engine.dialect.name

    def run(
        self,
        work: Callable[[sa.Connection, int], _Result],
        again: Callable[[BaseException], bool] = is_transient,
    ) -> _Result:
        """What `work` gives, in a transaction of its own that is committed.

        work    gets the connection and the number of the try, from 0. After a failure that passes by itself it is
                called again, for some seconds; whether the try before was committed is then not known.
        again   says which failures those are

        Raises HeadraceError; what `work` raises of its own goes through, and rolls back.
        """
        deadline, pause, number = time.monotonic() + self._patience_s, _PAUSE_S, 0
        while True:
            try:
                with self.engine.begin() as connection:
                    return work(connection, number)
            except DatabaseErrors as error:
                # a connection that has failed once may be in any state
                self.engine.dispose()
                if not again(error) or time.monotonic() + pause >= deadline:
                    raise translated(error, self.what) from _unwrapped(error)
                LOG.info("%s: tried again: %s", self.what, translated(error, self.what).message)
            time.sleep(pause)
            pause, number = min(2 * pause, _PAUSE_MAX_S), number + 1

    def close(self) -> None:
        """Ends the connection. Idempotent."""
        self.engine.dispose()


def open_database(config: SqlSinkSettings, node: str) -> Database:
    """The database of a sink; connects to nothing yet. Raises UserError where the URL or a driver is no good."""
    what = f"sink {node!r}, table {config.target}"
    try:
        return Database(_engine(config.url), what, PATIENCE_S)
    except sa.exc.NoSuchModuleError as error:
        raise translated(error, what) from error
    except (sa.exc.ArgumentError, ValueError):
        # the message repeats the URL or a part of it, and so maybe a password
        raise UserError(f"{what}: SQLAlchemy cannot read the URL", remedy="correct `url:`") from None
    except ModuleNotFoundError as error:
        raise UserError(
            f"{what}: the driver of that database is not installed: {error.name}", remedy=f"pip install {error.name}"
        ) from error


def _engine(text: str) -> sa.Engine:
    url = sa.make_url(text)
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql":
        # named, for which driver stands behind the bare name depends on SQLAlchemy's version
        url = url.set(drivername="postgresql+psycopg")
        arguments = {name: value for name, value in _POSTGRES.items() if name not in url.query}
    elif url.get_backend_name() == "sqlite":
        arguments = {"timeout": _SQLITE_WAIT_S}
    engine = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments, hide_parameters=True)
    if engine.dialect.name == "sqlite":
        _begin_with_the_lock(engine)
    return engine


def _begin_with_the_lock(engine: sa.Engine) -> None:
    """A transaction that reads first and then writes would fail at once where another one writes: ours wait."""

    @event.listens_for(engine, "connect")
    def _leave_begin_to_us(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _unwrapped(error: BaseException) -> BaseException:
    """The driver's error: SQLAlchemy's own text has statements in it."""
    return error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
