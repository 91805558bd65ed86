"""Slots of tests watch their operators: no row comes to one below its watermark."""

from __future__ import annotations

import json
from pathlib import Path

from support.processes.running import headrace
from support.suite.watermarks import told_by_slots

PIPELINE = """\
name: watched
sources: {n: {generator: {rows: 3, columns: {n: {sequence: {}}}}, schema: {n: int64 not null}}}
steps:
  seen: {from: n, map: {function: "seen:seen", schema: {found: string}}}
sinks: {out: {from: seen, print: {}, format: json}}
"""
SEEN = """\
import polars as pl
from headrace.operators.chain import Link

# the wrapper's own names, in the slot
wrapped = Link.on_batch.__globals__


def seen(rows):
    link = object.__new__(Link)
    wrapped["_WATERMARKS"][link] = 5
    try:
        Link.on_batch(link, pl.DataFrame({"__wm": [4]}))
    except AssertionError as error:
        return rows.with_columns(found=pl.lit(str(error))).select("found")
    return rows.with_columns(found=pl.lit("not watched")).select("found")
"""


def test_a_row_below_the_watermark_is_told_to_the_test(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    done = headrace(["run", "p.yaml"], tmp_path)
    assert done.code == 0, done.err
    told = "a row of 4 comes at watermark 5"
    assert json.loads(done.out.splitlines()[0]) == {"found": told}
    lines = told_by_slots().splitlines()
    assert lines and all(line.startswith("slot ") and line.endswith(told) for line in lines)
