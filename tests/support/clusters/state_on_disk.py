"""A job without an end whose state is larger than the memory it may use, and what its state and output have to be."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.savepoints.savepoint import damage, find
from headrace.checkpoint.stores.opening import read_url_range
from headrace.worker.state.restore import checked_rows
from support.clusters.session import Cluster

KEYS, WINDOW_ROWS = 400_000, 1_000
PADDING = "x" * 80
PIPELINE = """\
name: {name}
parallelism: {parallelism}
checkpoint: {{interval: 500ms, storage: "{storage}"{checkpoint}}}
state: {{backend: disk, memory: 32MiB, dir: {folder}/local}}
restart: {{strategy: exponential-delay, initial: 100ms, max: 200ms, poison_after: off}}
sources:
  numbers:
    generator: {{rate: 60000, columns: {{n: {{sequence: {{}}}}, at: {{time: {{step: 1ms}}}}}}}}
    schema: {{n: int64 not null, at: timestamp not null}}
    time: {{column: at}}
steps:
  named: {{from: numbers, with_columns: {{k: "'{padding}' || cast(n * 7919 % {keys} as string)"}}}}
  by_key: {{from: named, key_by: [k], window: {{tumbling: 365d}}, aggregate: {{n: count(*)}}}}
  seconds: {{from: numbers, window: {{tumbling: 1s}}, aggregate: {{n: count(*), total: sum(n)}}}}
sinks:
  years: {{from: by_key, files: {{path: {folder}/out/years}}, format: parquet}}
  out: {{from: seconds, files: {{path: {folder}/out/seconds, delivery: exactly-once}}, format: parquet}}
"""


def submitted(
    cluster: Cluster, folder: Path, *, name: str, storage: str, parallelism: int = 1, checkpoint: str = ""
) -> str:
    """Submits the job, and returns its id. folder: of what it writes; checkpoint: more settings of that."""
    file = folder / "pipeline.yaml"
    given = {"name": name, "storage": storage, "parallelism": parallelism, "checkpoint": checkpoint}
    file.write_text(PIPELINE.format(**given, folder=folder, padding=PADDING, keys=KEYS))
    job: str = cluster.headrace("submit", str(file), "--json").json["job_id"]
    return job


def checkpointed(cluster: Cluster, job: str) -> int:
    """The newest epoch of the job."""
    status = cluster.status(job)
    return 0 if status is None or status.checkpoint is None else status.checkpoint.epoch


def local_bytes(cluster: Cluster, job: str) -> int:
    """Bytes of its state in local files, as the status has it."""
    status = cluster.status(job)
    return 0 if status is None or status.state_places is None else status.state_places.disk_bytes


def require_exact(savepoint: str, folder: Path) -> None:
    """State of a savepoint, and output, are those of the rows up to its position; local files have no names."""
    saved = find(savepoint).manifest
    assert damage(saved) is None
    (split,) = saved.sources["numbers"].splits
    numbers = pl.DataFrame({"k": pl.int_range(split.position, eager=True) * 7919 % KEYS})
    assert _counted(saved).rows() == numbers.group_by("k").agg(n=pl.len().cast(pl.Int64)).sort("k").rows()

    windows = pl.read_parquet(folder / "out" / "seconds" / "**/*.parquet").sort("window_start")
    expected = [sum(range(at, at + WINDOW_ROWS)) for at in range(0, windows.height * WINDOW_ROWS, WINDOW_ROWS)]
    assert windows["total"].to_list() == expected
    assert set(windows["n"]) == {WINDOW_ROWS}
    assert windows.height >= split.position // WINDOW_ROWS - 1, "every window that has ended"
    assert list((folder / "local").iterdir()) == [], "files have no names"


def _counted(manifest: Manifest) -> pl.DataFrame:
    """Keys of the state of `by_key` with their rows."""
    handles = [each for each in manifest.states if (each.node, each.state) == ("by_key", "windows")]
    parts = [part for handle in handles for part in handle.files]
    rows = pl.concat([frame for part in parts for frame in checked_rows(part, read_url_range)], how="diagonal")
    number = pl.col("k").str.strip_prefix(PADDING).cast(pl.Int64)
    counts = rows.group_by(number).agg(n=pl.col("^__sum.*count.*$").sum())
    return counts.sort("k")
