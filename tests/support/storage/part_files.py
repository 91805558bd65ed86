"""What a files sink has made visible, in the order in which it was written."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from headrace.testing.sink_conformance import Rows


def read_parts(folder: Path, job: str = "j") -> Rows:
    """Rows of all visible part files of a job, in JSON or Parquet."""
    files = [path for path in folder.glob("*") if not path.name.startswith(".")]
    assert all(path.name.startswith(f"part-{job}-") for path in files)
    files.sort(key=lambda path: [int(part) for part in path.stem.split("-")[2:]])
    return [row for path in files for row in _read(path)]


def _read(path: Path) -> Rows:
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    return [json.loads(line) for line in path.read_text().splitlines()]
