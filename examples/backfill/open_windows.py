"""`python open_windows.py SAVEPOINT`: the windows that are open in a savepoint of v2.yaml, read with polars alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

folder = Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text())
files = [
    folder / part["path"]
    for state in manifest["states"]
    if (state["node"], state["state"]) == ("hourly", "windows")
    for part in state["files"]
]
windows = pl.concat([pl.read_parquet(file) for file in files], how="diagonal_relaxed")
open_windows = (
    windows.group_by(hour=pl.from_epoch("__pane", time_unit="ms"))
    .agg(keys=pl.len(), flights=pl.col("__sum.all_count.rows").sum())
    .sort("hour")
)
for hour, keys, flights in open_windows.iter_rows():
    print(f"{hour:%Y-%m-%d %H:%M}  {keys:3} keys  {flights:3} flights")
