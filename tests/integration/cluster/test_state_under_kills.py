"""Fifty kills of slots under load, with state on disk: every row counts once, in output and state, and no file is left
over or missing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import GRACE_MS, delete_orphans
from headrace.checkpoint.journal.journal import own_files
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.paths import STATE
from headrace.checkpoint.savepoints.savepoint import damage, find
from headrace.checkpoint.stores.opening import open_store, read_url_range
from headrace.worker.state.restore import checked_rows
from support.clusters.session import Cluster, kill
from support.processes.running import wait_until

pytestmark = pytest.mark.full

KILLS, KEYS, WINDOW_ROWS = 50, 400_000, 1_000
PIPELINE = """\
name: killed-over-and-over
parallelism: 2
checkpoint: {{interval: 500ms, storage: "{storage}"}}
state: {{backend: disk, memory: 32MiB, dir: {local}}}
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
  years: {{from: by_key, files: {{path: {out}/years}}, format: parquet}}
  out: {{from: seconds, files: {{path: {out}/seconds, delivery: exactly-once}}, format: parquet}}
"""
PADDING = "x" * 80


def checkpointed(cluster: Cluster, job: str) -> int:
    """The newest epoch of the job."""
    status = cluster.status(job)
    return 0 if status is None or status.checkpoint is None else status.checkpoint.epoch


def is_on_disk(cluster: Cluster, job: str) -> bool:
    status = cluster.status(job)
    return status is not None and status.state_places is not None and status.state_places.disk_bytes > 0


def moments(cluster: Cluster, job: str) -> Iterator[None]:
    """Moments for kills: as soon as an attempt runs, has state on disk, or has completed a checkpoint. Each fifth is
    one of the last kind, so that the job gets ahead."""
    draw = random.Random(50)
    for number in range(KILLS):
        epoch = checkpointed(cluster, job)
        cluster.wait_state(job, "RUNNING")
        kind = "checkpoint" if number % 5 == 0 else draw.choice(["running", "disk", "checkpoint"])
        if kind == "disk":
            wait_until(lambda: is_on_disk(cluster, job), "state is in local files")
        if kind == "checkpoint":
            wait_until(lambda before=epoch: checkpointed(cluster, job) > before, "a checkpoint is complete")  # type: ignore[misc]
        yield


def counted(manifest: Manifest) -> pl.DataFrame:
    """Keys of the state of `by_key` with their rows."""
    handles = [each for each in manifest.states if (each.node, each.state) == ("by_key", "windows")]
    parts = [part for handle in handles for part in handle.files]
    rows = pl.concat([frame for part in parts for frame in checked_rows(part, read_url_range)], how="diagonal")
    number = pl.col("k").str.strip_prefix(PADDING).cast(pl.Int64)
    counts = rows.group_by(number).agg(n=pl.col("^__sum.*count.*$").sum())
    return counts.sort("k")


def test_after_fifty_kills_state_and_output_are_an_oracles(cluster: Cluster, tmp_path: Path) -> None:
    storage, local, out = (tmp_path / name for name in ("checkpoints", "local", "out"))
    places = {"storage": storage, "local": local, "out": out}
    (tmp_path / "p.yaml").write_text(PIPELINE.format(**places, padding=PADDING, keys=KEYS))
    job = cluster.headrace("submit", str(tmp_path / "p.yaml"), "--json").json["job_id"]
    draw = random.Random(1)
    for _ in moments(cluster, job):
        kill(draw.choice(cluster.wait_busy_slots(job)))
    epoch = checkpointed(cluster, job)
    wait_until(lambda: checkpointed(cluster, job) > epoch and is_on_disk(cluster, job), "the job goes on")
    path = cluster.headrace("stop", job, "--savepoint", str(tmp_path / "savepoints"), "--json").json["path"]

    saved = find(path).manifest
    assert damage(saved) is None
    (split,) = saved.sources["numbers"].splits
    numbers = pl.DataFrame({"k": pl.int_range(split.position, eager=True) * 7919 % KEYS})
    assert counted(saved).rows() == numbers.group_by("k").agg(n=pl.len().cast(pl.Int64)).sort("k").rows()

    windows = pl.read_parquet(out / "seconds" / "**/*.parquet").sort("window_start")
    expected = [sum(range(at, at + WINDOW_ROWS)) for at in range(0, windows.height * WINDOW_ROWS, WINDOW_ROWS)]
    assert windows["total"].to_list() == expected
    assert set(windows["n"]) == {WINDOW_ROWS}
    assert windows.height >= split.position // WINDOW_ROWS - 1, "every window that has ended"

    store = open_store(str(storage / job))
    journal = JournalStore(store, "", "").load()
    delete_orphans(store, journal, round(time.time() * 1000) + 2 * GRACE_MS)
    named = {file for record in journal.checkpoints for file in own_files(record.manifest)}
    assert set(store.list(STATE)) == named
    assert list(local.iterdir()) == [], "files have no names"
