"""A sink's database client: transactions with retries of transient errors. The only module that creates engines.

Knows no tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from headrace.core.errors import UserError
from headrace.core.retry import Backoff, Retries
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.failures import DatabaseErrors, is_transient, translated

LOG = logging.getLogger(__name__)
PATIENCE_S = 15.0
"""How long a transaction is retried while the database is unavailable."""
_BACKOFF = Backoff(first_s=0.1, max_s=2.0)
_SQLITE_WAIT_S = 30.0
"""How long SQLite waits for another writer's lock."""
_POSTGRES = {
    "connect_timeout": "10",
    "application_name": "headrace",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Connection defaults, which the URL overrides: a silently lost server is detected within half a minute."""

_Result = TypeVar("_Result")


class Database:
    """One connection to a database, opened on demand and again after a loss. Used by one thread at a time."""

    def __init__(self, engine: sa.Engine, what: str, patience_s: float) -> None:
        self.engine = engine
        self.what = what
        """The user and purpose of the connection, for error texts."""
        self._patience_s = patience_s

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the dialect."""
        return self.engine.dialect.name

    def run(
        self,
        work: Callable[[sa.Connection, int], _Result],
        again: Callable[[BaseException], bool] = is_transient,
    ) -> _Result:
        """Runs `work` in its own transaction, commits, and returns its result.

        work    gets the connection and the number of the try, from 0. After a transient failure it is called again, for
                some seconds; whether the previous try was committed is then unknown
        again   decides which failures are transient

        Raises HeadraceError; exceptions of `work` itself pass through, and roll back.
        """
        retries = Retries(_BACKOFF, self._patience_s, overruns=False)
        while True:
            try:
                with self.engine.begin() as connection:
                    return work(connection, retries.failures)
            except DatabaseErrors as error:
                # a failed connection may be in any state
                self.engine.dispose()
                if not again(error) or not retries.pause():
                    raise translated(error, self.what) from _unwrapped(error)
                LOG.info("%s: tried again: %s", self.what, translated(error, self.what).message)

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        self.engine.dispose()


def open_database(config: SqlSinkSettings, node: str) -> Database:
    """The database of a sink; opens no connection yet. Raises UserError for an invalid URL or a missing driver."""
    what = f"sink {node!r}, table {config.target}"
    try:
        return Database(_engine(config.url), what, PATIENCE_S)
    except sa.exc.NoSuchModuleError as error:
        raise translated(error, what) from error
    except (sa.exc.ArgumentError, ValueError):
        # the message contains the URL or a part of it, and so possibly a password
        raise UserError(f"{what}: SQLAlchemy cannot read the URL", remedy="correct `url:`") from None
    except ModuleNotFoundError as error:
        raise UserError(
            f"{what}: the driver of that database is not installed: {error.name}", remedy=f"pip install {error.name}"
        ) from error


def _engine(text: str) -> sa.Engine:
    url = sa.make_url(text)
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql":
        # explicit, because the default driver of a dialect depends on SQLAlchemy's version
        url = url.set(drivername="postgresql+psycopg")
        arguments = {name: value for name, value in _POSTGRES.items() if name not in url.query}
    elif url.get_backend_name() == "sqlite":
        arguments = {"timeout": _SQLITE_WAIT_S}
    engine = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments, hide_parameters=True)
    if engine.dialect.name == "sqlite":
        _begin_with_the_lock(engine)
    return engine


def _begin_with_the_lock(engine: sa.Engine) -> None:
    """Begins every SQLite transaction with the write lock: one that reads first and writes later would fail at once if
    another one writes (SQLITE_BUSY on the upgrade of a read lock); with BEGIN IMMEDIATE it waits."""

    @event.listens_for(engine, "connect")
    def _leave_begin_to_us(connection: Any, _record: object) -> None:
        # otherwise the driver would begin transactions on its own, without the lock
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _unwrapped(error: BaseException) -> BaseException:
    """The driver's error: SQLAlchemy's own text contains statements."""
    return error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
