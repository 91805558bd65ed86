"""The part of a pipeline that a node's rows come from."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.api.upstream import upstream_of

DATA: dict[str, Any] = {
    "name": "p",
    "parallelism": 2,
    "sources": {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}},
    "steps": {
        "f": {"from": "a", "filter": "n > 0"},
        "u": {"union": ["f", "b"]},
        "w": {"from": "u", "aggregate": {}},
        "late": {"from": "w.late", "drop": ["n"]},
        "other": {"from": "c", "drop": ["n"]},
    },
    "sinks": {"out": {"from": "w"}},
    "tests": [{"name": "t"}],
}


@pytest.mark.parametrize(
    ("reference", "sources", "steps"),
    [
        ("a", {"a"}, set()),
        ("f", {"a"}, {"f"}),
        ("w", {"a", "b"}, {"f", "u", "w"}),
        ("w.late", {"a", "b"}, {"f", "u", "w"}),
        ("late", {"a", "b"}, {"f", "u", "w", "late"}),
        ("other", {"c"}, {"other"}),
    ],
)
def test_only_what_rows_come_from_is_kept(reference: str, sources: set[str], steps: set[str]) -> None:
    kept = upstream_of(DATA, reference)
    assert set(kept["sources"]) == sources and set(kept.get("steps", {})) == steps
    assert "sinks" not in kept and "tests" not in kept and kept["parallelism"] == 2
    assert ("steps" in kept) == bool(steps), "an empty section is a mistake in a file"
