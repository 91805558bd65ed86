"""A package outside of headrace adds a connector by its entry point alone, and the suites run against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.registry import Connector, connector, connector_names
from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from support.third_party_site import importable, third_party_path


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """The package is on the path."""
    with importable(third_party_path(tmp_path / "site")):
        yield


@pytest.fixture
def tiny(installed: None) -> Connector:
    """Its smallest connector."""
    return connector("tiny")


def test_it_is_listed_beside_ours(tiny: Connector) -> None:
    assert tiny.name in connector_names()
    assert {"kafka", "files", "memory"} < set(connector_names())


class TestTinySource(SourceConformance):
    @pytest.fixture
    def source(self, tiny: Connector) -> SourceUnderTest:
        assert tiny.source is not None
        config = tiny.source.model_validate({"count": "25"})
        return SourceUnderTest(config, SourceContext("p", "n", schema_of({"n": "int64"})), splits=1, rows=25)


class TestTinySink(SinkConformance):
    @pytest.fixture
    def sink(self, tiny: Connector, tmp_path: Path) -> SinkUnderTest:
        path = tmp_path / "out.txt"
        assert tiny.sink is not None

        def visible() -> Rows:
            return [json.loads(line) for line in path.read_text().splitlines()]

        config = tiny.sink.model_validate({"path": str(path)})
        return SinkUnderTest(config, SinkContext("j", "n", 0, 1, SCHEMA, format="json"), visible=visible)
