"""`partition:` is checked before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import InvalidPipeline
from headrace.local.compile import compile_pipeline
from headrace.spec.pipeline import Pipeline


@pytest.mark.parametrize("group", ["steps", "sinks"])
@pytest.mark.parametrize("column", ["parts", "place"])
def test_rows_cannot_be_spread_by_a_list_or_a_struct(group: str, column: str) -> None:
    schema = {"i": "int64", "parts": "[int64]", "place": {"x": "float64"}}
    data: dict[str, Any] = {
        "name": "p",
        "sources": {"rows": {"memory": {"name": "unused"}, "schema": schema}},
        "steps": {"kept": {"from": "rows", "filter": "i > 0"}},
        "sinks": {"out": {"from": "kept", "memory": {"name": "unused"}}},
    }
    data[group]["kept" if group == "steps" else "out"]["partition"] = {"hash": [column]}
    with pytest.raises(InvalidPipeline, match="lists and structs cannot be keys"):
        compile_pipeline(Pipeline.from_dict(data))
