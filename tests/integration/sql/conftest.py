from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.storage.postgres import Postgres, postgres
from support.storage.sql_tables import Tables

__all__ = ["postgres"]


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
