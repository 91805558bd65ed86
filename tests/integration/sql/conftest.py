from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.patience import WAIT_SECONDS
from support.storage.postgres import Postgres, postgres
from support.storage.sql_tables import Tables

__all__ = ["postgres"]


@pytest.fixture(autouse=True)
def rows_wait_for_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is sent before because this machine stood still for the second that they may wait."""
    monkeypatch.setattr("headrace_connectors.sql.writing.row_buffer.LINGER_S", WAIT_SECONDS)


@pytest.fixture
def postgres_tables(postgres: Postgres) -> Iterator[Tables]:
    tables = Tables(postgres.url(postgres.create_database()))
    yield tables
    tables.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        made = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
        yield made
        made.close()
    else:
        yield request.getfixturevalue("postgres_tables")
