"""Files as people have them, by both engines: the rows of a CSV file are the same, and their positions too."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.core.settings import Home
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.spark.local_exchange import LocalExchange

TEXT = 'text,id\r\n"two\nlines",1\r\n5" pipe,2\r\nopen,"3\r\n"a ""q""\n\n",4\r\n"",5\r\n'
ROWS = [("1", "two\nlines"), ("2", '5" pipe'), ("4", 'a "q"\n\n'), ("5", "")]
BAD = '"offset":4,'
"""Its row is in line 5."""
PACKED = {
    "plain [1] #%41.csv": TEXT.encode(),
    "members.csv.gz": gzip.compress(TEXT[:30].encode()) + gzip.compress(TEXT[30:].encode()),
    "frame.csv.zst": pa.compress(TEXT.encode(), codec="zstd", asbytes=True),
}


def pipeline(folder: Path, name: str, out: str) -> Pipeline:
    source: dict[str, Any] = {
        "files": {"path": str(folder / name)},
        "format": {"csv": {"header": True}},
        "schema": {"id": "int64", "text": "string"},
        "on_error": "divert",
    }
    sink = {"files": {"path": str(folder / out)}, "format": "csv"}
    bad = {"files": {"path": str(folder / f"{out}-bad")}, "format": "json"}
    return pipeline_from_dict(
        {
            "name": "odd",
            "sources": {"s": source},
            "sinks": {"out": {"from": "s", **sink}, "bad": {"from": "s.bad", **bad}},
        }
    )


def written(folder: Path) -> list[tuple[str, ...]]:
    texts = (path.read_bytes().decode() for path in folder.glob("part-*"))
    return sorted(tuple(row) for text in texts for row in csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("name", PACKED)
def test_both_engines_read_and_write_the_same_records(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PACKED[name])
    (tmp_path / "plain 1 #%41.csv").write_text("another file\n")

    live = LocalJob(compile_pipeline(pipeline(tmp_path, name, "live")).physical, JobOptions())
    assert live.run(lambda _: None) is JobState.FINISHED
    prepared = prepare(pipeline(tmp_path, name, "replayed"), ReplayOptions(parallelism=2), Home(tmp_path / "home"))
    prepared.replay(LocalExchange(1), lambda _: None).run()

    assert written(tmp_path / "live") == written(tmp_path / "replayed") == ROWS
    for out in ("live", "replayed"):
        (bad,) = (tmp_path / f"{out}-bad").glob("part-*")
        assert BAD in bad.read_text()
        assert bad.read_text().count("\n") == 1
