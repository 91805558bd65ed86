from __future__ import annotations

import pytest

from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from headrace_connectors.generator import GeneratorSourceConfig

COLUMNS = schema_of({"id": "int64", "name": "string", "share": "float64"})
RULES = {
    "id": {"sequence": {"start": "5"}},
    "name": {"string": {"length": "14"}},
    "share": {"float": {}, "nulls": "0.2"},
}


class TestGenerator(SourceConformance):
    @pytest.fixture
    def source(self) -> SourceUnderTest:
        config = GeneratorSourceConfig.model_validate({"rows": "101", "partitions": "3", "seed": "9", "columns": RULES})
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS), splits=3, rows=101)


class TestWithARate(SourceConformance):
    @pytest.fixture
    def source(self) -> SourceUnderTest:
        config = GeneratorSourceConfig.model_validate({"rows": 60, "partitions": 2, "rate": 20_000, "columns": RULES})
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS), splits=2, rows=60)
