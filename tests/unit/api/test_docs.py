"""docs/python-api.md runs as it stands, names all that is public, and the example says what its YAML twin says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import api
from headrace.local.engine.compile import compile_pipeline
from headrace.local.pipeline_file import load_file

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_makes_pipelines_that_plan() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    built = names["p"].build()
    assert {"departed", "hourly", "some", "same", "more", "totals"} == set(built.steps)
    assert compile_pipeline(built).physical.tasks
    assert names["thirds"].preview(rows=2).get_column("n").to_list() == [0, 3]
    assert names["total"].get_column("n").to_list() == [1_683]
    assert built.steps["some"].verb == built.steps["same"].verb


def test_the_page_names_everything_public() -> None:
    assert [name for name in api.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_example_does_what_its_yaml_twin_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "flights_api", raising=False)
    made = load_file(str(ROOT / "examples" / "flights_api.py")).pipeline
    twin = load_file(str(ROOT / "examples" / "flights.yaml")).pipeline
    assert made.steps == twin.steps
    assert made.sources["flights"].columns == twin.sources["flights"].columns
    assert made.sources["flights"].time == twin.sources["flights"].time
    assert {name: sink.from_ for name, sink in made.sinks.items()} == {
        name: sink.from_ for name, sink in twin.sinks.items()
    }
