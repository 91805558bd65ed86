"""Cuts through what a flow reads, drawn at random, and the flow's pipeline stopping at one."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace_connectors.files.paths import position_of

Cut = dict[str, dict[str, int]]
"""Source -> partition -> how many of its rows lie before the cut."""
AT_AN_END = 0.2
"""Share of the partitions that are cut at their beginning or behind their last row."""


def ends_of(document: Mapping[str, Any], messages: Sequence[int] = ()) -> Cut:
    """Behind the last row of each partition. messages: of the only topic, by partition."""
    ends: Cut = {}
    for name, source in document["sources"].items():
        if "generator" in source:
            rows, count = int(source["generator"]["rows"]), int(source["generator"].get("partitions", 1))
            counts: Sequence[int] = [(rows - number + count - 1) // count for number in range(count)]
        elif "files" in source:
            pattern = Path(source["files"]["path"])
            found = sorted(pattern.parent.glob(pattern.name))
            assert len(found) == int(source["files"]["partitions"]), "a partition is one file"
            counts = [len(path.read_text().splitlines()) for path in found]
        else:
            counts = messages
        ends[name] = {str(number): count for number, count in enumerate(counts)}
    return ends


def random_cut(draw: random.Random, begin: Cut | None, ends: Cut) -> Cut:
    """A cut between two others; begin None: the beginning."""
    return {
        source: {
            number: _between(draw, 0 if begin is None else begin[source][number], end) for number, end in rows.items()
        }
        for source, rows in ends.items()
    }


def _between(draw: random.Random, low: int, high: int) -> int:
    return draw.choice((low, high)) if draw.random() < AT_AN_END else draw.randint(low, high)


def stopping(document: Mapping[str, Any], cut: Cut | None, ends: Cut) -> dict[str, Any]:
    """The pipeline in its file form, stopping at a cut; None: where its sources end."""
    changed: dict[str, Any] = json.loads(json.dumps(document))
    for name, source in changed["sources"].items():
        (kind,) = (kind for kind in ("generator", "files", "kafka") if kind in source)
        source[kind]["stop"] = "latest"
        if cut is not None:
            source[kind]["stop"] = {
                number: _line(rows, ends[name][number]) if kind == "files" else rows
                for number, rows in cut[name].items()
            }
    return changed


def _line(line: int, lines: int) -> int:
    """The position; the end of the only file is the beginning of the next one."""
    return position_of(0, line) if line < lines else position_of(1, 0)


def position(document: Mapping[str, Any], ends: Cut, cut: Cut, source: str, partition: int) -> int:
    """A cut's place in one partition as its connector counts."""
    rows, end = cut[source][str(partition)], ends[source][str(partition)]
    return _line(rows, end) if "files" in document["sources"][source] else rows
