"""The sources of `local` that stand in for others keep the contract too."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.local.engine.pipeline_ends import RowsSource, StampedRowsSource
from headrace.local.engine.quiet_source import quiet_source
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest

CONTEXT = SourceContext("p", "n", schema_of({"id": "int64"}))


def rows_source(kind: type[RowsSource]) -> RowsSource:
    """40 rows in 3 partitions."""
    frames = tuple(pl.DataFrame({"id": list(range(part, 40, 3))}) for part in range(3))
    return kind(partitions=frames, stamps=tuple(frame.get_column("id") for frame in frames))


class TestRows(SourceConformance):
    @pytest.fixture
    def source(self) -> SourceUnderTest:
        return SourceUnderTest(rows_source(RowsSource), CONTEXT, splits=3, rows=40)


class TestQuietRows(SourceConformance):
    @pytest.fixture
    def source(self) -> SourceUnderTest:
        return SourceUnderTest(quiet_source(rows_source(StampedRowsSource)), CONTEXT, splits=3, rows=40)
