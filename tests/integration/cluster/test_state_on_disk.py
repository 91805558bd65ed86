"""State beyond its budget lies in local files: a job whose slot is killed amid that is exact, and leaves no file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support.clusters.session import Cluster, kill
from support.processes.running import wait_until

pytestmark = pytest.mark.turns(2, of="files")

ROWS = 600_000
KEYS = 400_000
PIPELINE = """\
name: on-disk
checkpoint: {{interval: 500ms}}
state: {{backend: disk, memory: 32MiB, dir: {folder}}}
restart: {{strategy: fixed-delay, attempts: 5, delay: 100ms}}
sources:
  numbers:
    generator: {{rows: {rows}, rate: 60000, columns: {{n: {{sequence: {{}}}}, at: {{time: {{step: 1ms}}}}}}}}
    schema: {{n: int64 not null, at: timestamp not null}}
    time: {{column: at}}
steps:
  named: {{from: numbers, with_columns: {{k: "'{padding}' || cast(n % {keys} as string)"}}}}
  by_key: {{from: named, key_by: [k], window: {{tumbling: 1d}}, aggregate: {{n: count(*), total: sum(n)}}}}
  whole:
    from: by_key
    window: {{tumbling: 1d}}
    aggregate: {{keys: count(*), n: sum(n), total: sum(total), most: max(n)}}
sinks:
  out: {{from: whole, files: {{path: {out}, delivery: exactly-once}}, format: parquet}}
"""


def written(tmp_path: Path, folder: Path) -> Path:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(rows=ROWS, keys=KEYS, padding="x" * 80, folder=folder, out=tmp_path / "out"))
    return file


def on_disk(cluster: Cluster, job: str) -> int:
    """Bytes of its state in local files."""
    status = cluster.status(job)
    return 0 if status is None or status.state_places is None else status.state_places.disk_bytes


def is_shown(cluster: Cluster, job: str) -> bool:
    """Whether the status has the windows of `by_key` in all places."""
    status = cluster.status(job)
    found = [each for node in status.nodes if node.node == "by_key" for each in node.states] if status else []
    return any(
        each.state == "windows" and each.dropped and each.memory_bytes and each.disk_bytes and each.storage_bytes
        for each in found
    )


def test_a_slot_is_killed_while_state_lies_on_disk(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    submitted = cluster.headrace("submit", str(written(tmp_path, folder)), "--parallelism", "2", "--json").json
    job = submitted["job_id"]
    wait_until(lambda: on_disk(cluster, job) > 0, "state is in local files")
    wait_until(lambda: is_shown(cluster, job), "the state of the node is shown by place")
    kill(cluster.busy_slots(job)[0])
    wait_until(lambda: cluster.state(job) == "FINISHED", "the job ends")

    found = pl.read_parquet(tmp_path / "out" / "**/*.parquet").drop("window_start", "window_end")
    numbers = pl.Series(range(ROWS))
    assert found.rows() == [(KEYS, ROWS, numbers.sum(), 2)]
    assert list(folder.iterdir()) == [], "files have no names"


def test_a_folder_that_cannot_be_used_fails_the_job(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("no folder")
    job = cluster.headrace("submit", str(written(tmp_path, folder)), "--json").json["job_id"]
    status = cluster.wait_state(job, "FAILED")
    assert status.failure is not None
    assert f"local files of state cannot be written to {folder}" in status.failure
    assert "set state.dir to a folder that the workers may write to" in status.failure
