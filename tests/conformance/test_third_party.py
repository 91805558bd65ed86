"""A package outside of headrace adds a connector by its entry point alone, and the suites run against it."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect import registry
from headrace.connect.registry import Connector, connector, connector_names
from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from support.third_party_site import third_party_path


def _forget_installed() -> None:
    importlib.invalidate_caches()
    registry._entries.cache_clear()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connector]:
    """The package is on the path."""
    for folder in third_party_path(tmp_path / "site"):
        monkeypatch.syspath_prepend(folder)
    _forget_installed()
    yield connector("tiny")
    monkeypatch.undo()
    sys.modules.pop("tiny_connector", None)
    _forget_installed()


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
