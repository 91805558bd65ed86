"""Slots with state beyond memory that are killed, or frozen past their lease, while they seal, merge, write local files
and upload: the job is exact, and no local file is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest

from support.clusters.session import Cluster, frozen, kill, running_cluster, wait_gone
from support.clusters.stopping_points import StoppingPoints
from support.clusters.worker_process import parent_of
from support.patience import SHORT_CLUSTER_LEASES
from support.processes.running import wait_until
from support.third_party_site import third_party_path

ROWS, KEYS = 400_000, 300_000
PIPELINE = """\
name: {name}
checkpoint: {{interval: 500ms}}
state: {{backend: disk, memory: 32MiB, dir: {folder}}}
restart: {{strategy: fixed-delay, attempts: 9, delay: 100ms}}
sources:
  numbers:
    generator: {{rows: {rows}, rate: 80000, columns: {{n: {{sequence: {{}}}}, at: {{time: {{step: 1ms}}}}}}}}
    schema: {{n: int64 not null, at: timestamp not null}}
    time: {{column: at}}
steps:
  named: {{from: numbers, with_columns: {{k: "'{padding}' || cast(n * 7919 % {keys} as string)"}}}}
  by_key: {{from: named, key_by: [k], window: {{tumbling: 1d}}, aggregate: {{n: count(*), total: sum(n)}}}}
  whole:
    from: by_key
    window: {{tumbling: 1d}}
    aggregate: {{keys: count(*), n: sum(n), total: sum(total), most: max(n)}}
sinks:
  out: {{from: whole, files: {{path: {out}, delivery: exactly-once}}, format: parquet}}
"""
STEPS = ("in-seal", "in-merge", "in-local-file", "before-upload", "before-ack")


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> StoppingPoints:
    return StoppingPoints(tmp_path_factory.mktemp("p") / "points")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, points: StoppingPoints) -> Iterator[Cluster]:
    """Two workers, each of which has slots enough for the job."""
    folder = tmp_path_factory.mktemp("d")
    path = third_party_path(folder / "site")
    with (
        patch.dict(os.environ, {"HEADRACE_TEST_POINTS": str(points.folder)}),
        running_cluster(folder, workers=2, slots=1, python_path=path, times=SHORT_CLUSTER_LEASES) as running,
    ):
        yield running


def submitted(cluster: Cluster, tmp_path: Path) -> str:
    file = tmp_path / "pipeline.yaml"
    given = {"name": f"on-disk-{os.urandom(4).hex()}", "folder": tmp_path / "local", "out": tmp_path / "out"}
    file.write_text(PIPELINE.format(rows=ROWS, keys=KEYS, padding="x" * 80, **given))
    job: str = cluster.headrace("submit", str(file), "--json").json["job_id"]
    return job


def require_exact(cluster: Cluster, job: str, tmp_path: Path) -> None:
    wait_until(lambda: cluster.state(job) == "FINISHED", "the job ends")
    found = pl.read_parquet(tmp_path / "out" / "**/*.parquet").drop("window_start", "window_end")
    assert found.rows() == [(KEYS, ROWS, ROWS * (ROWS - 1) // 2, 2)]
    assert list((tmp_path / "local").iterdir()) == [], "files have no names"


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step == "in-local-file" else pytest.mark.full) for step in STEPS]
)
def test_a_slot_is_killed(cluster: Cluster, points: StoppingPoints, tmp_path: Path, step: str) -> None:
    job = submitted(cluster, tmp_path)
    wait_until(lambda: cluster.client.status(job).checkpoint is not None, "a checkpoint is complete")
    with points.held_at(step) as slot:
        kill(slot)
    require_exact(cluster, job, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("step", ["in-merge", "before-ack"])
def test_a_slot_is_frozen_past_its_lease(cluster: Cluster, points: StoppingPoints, tmp_path: Path, step: str) -> None:
    """Its supervisor, too: another worker has gone on when both wake, and the slot ends."""
    job = submitted(cluster, tmp_path)
    wait_until(lambda: cluster.client.status(job).checkpoint is not None, "a checkpoint is complete")
    attempt = cluster.client.status(job).attempt
    with points.held_at(step) as slot:
        worker = parent_of(slot)
        slots = cluster.slots(worker)
        with frozen(worker, *slots):
            wait_until(lambda: cluster.client.status(job).attempt > attempt, "another attempt runs")
            points.let_go(step)
    wait_gone(slot)
    require_exact(cluster, job, tmp_path)
    wait_until(lambda: len(cluster.slots()) == 2, "each worker has its slot")


@pytest.mark.full
def test_rows_go_on_while_an_upload_does_not(cluster: Cluster, points: StoppingPoints, tmp_path: Path) -> None:
    """As with storage that is slow: the epoch waits, the task does not."""
    job = submitted(cluster, tmp_path)
    wait_until(lambda: cluster.client.status(job).checkpoint is not None, "a checkpoint is complete")

    def rows() -> int:
        return sum(node.rows_in for node in cluster.client.status(job).nodes if node.node == "by_key")

    with points.held_at("before-upload"):
        before, epoch = rows(), cluster.client.status(job).checkpoint
        wait_until(lambda: rows() >= before + ROWS // 10, "rows go on")
        assert cluster.client.status(job).checkpoint == epoch
    require_exact(cluster, job, tmp_path)
    assert cluster.client.status(job).attempt == 1
