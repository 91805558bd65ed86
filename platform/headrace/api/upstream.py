"""The part of a pipeline that a node's rows come from. Pure: the file form in, the file form out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.ids import split_output


def upstream_of(data: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """The pipeline with only `reference` and the nodes that its rows come from: no sinks, no tests."""
    steps: Mapping[str, Mapping[str, Any]] = data.get("steps", {})
    needed: set[str] = set()
    left = [split_output(reference)[0]]
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        left += [split_output(each)[0] for each in _inputs(steps.get(name, {}))]
    kept = {key: value for key, value in data.items() if key not in {"sources", "steps", "sinks", "tests"}}
    kept["sources"] = {name: node for name, node in data.get("sources", {}).items() if name in needed}
    if behind := {name: node for name, node in steps.items() if name in needed}:
        kept["steps"] = behind
    return kept


def _inputs(step: Mapping[str, Any]) -> list[str]:
    if "union" in step:
        return list(step["union"])
    return [step["from"]] if "from" in step else []
