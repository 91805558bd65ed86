from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.sink_conformance import SCHEMA, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from headrace_connectors.memory import MemorySinkConfig, MemorySourceConfig, open_collected

COLUMNS = schema_of({"id": "int64", "name": "string"})


class TestInlineRows(SourceConformance):
    @pytest.fixture
    def source(self) -> SourceUnderTest:
        rows = tuple({"id": str(number), "name": f"n{number}", "$partition": number % 3} for number in range(40))
        config = MemorySourceConfig(rows=rows, partitions=3)
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS), splits=3, rows=40)


class TestCollected(SinkConformance):
    @pytest.fixture
    def sink(self) -> Iterator[SinkUnderTest]:
        with open_collected("here") as collected:
            yield SinkUnderTest(
                MemorySinkConfig(name="here"),
                SinkContext("j", "n", 0, 1, SCHEMA),
                visible=collected.rows,
                broken=MemorySinkConfig(name="nobody"),
            )
