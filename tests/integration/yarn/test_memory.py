"""A worker that uses more memory than its container has: YARN kills it, and its words reach the job's failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.yarn.master.allocation import MORE_MEMORY
from support.processes.running import wait_until
from support.yarn.cluster import yarn_cluster
from support.yarn.session import YarnSession

pytestmark = pytest.mark.full

WORKER_MB = 512
SETTINGS = {
    # a node without control groups watches memory only if it does not enforce it
    "yarn.nodemanager.resource.memory.enforced": "false",
    "yarn.nodemanager.container-monitor.interval-ms": "500",
}
GREEDY = """\
from pathlib import Path

import polars as pl

kept = []


def eat(rows: pl.DataFrame) -> pl.DataFrame:
    if not kept and not Path("{full}").exists():
        kept.append(b"1" * ({size_mb} << 20))
    return rows
"""
"""A function that takes memory once in each process, until a file says that it has had enough."""
PIPELINE = """\
name: greedy
checkpoint: {interval: 1s}
restart: {strategy: exponential-delay, initial: 200ms, max: 500ms}
sources:
  numbers:
    generator: {rate: 20, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  eaten:
    from: numbers
    map: {function: "greedy:eat", schema: {n: int64}}
sinks:
  out:
    from: eaten
    print: {}
    format: json
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[YarnSession]:
    with yarn_cluster(tmp_path_factory.mktemp("memory") / "c", settings=SETTINGS) as yarn:
        made = YarnSession(yarn, tmp_path, "greedy")
        yield made
        made.end()


def test_a_worker_over_its_memory_is_replaced_and_the_failure_names_the_remedy(cluster: YarnSession) -> None:
    full = cluster.folder / "full"
    (cluster.folder / "greedy.py").write_text(GREEDY.format(full=full, size_mb=2 * WORKER_MB))
    file = cluster.folder / "greedy.yaml"
    file.write_text(PIPELINE)
    cluster.start(memory=f"{WORKER_MB}Mi")
    submitted = cluster.headrace("submit", str(file))
    assert submitted.code == 0, submitted.err
    job = submitted.out.strip()

    def named() -> list[str]:
        return [each.message for each in cluster.client.exceptions(job) if MORE_MEMORY in each.message]

    wait_until(lambda: len(named()) >= 2, "two kills are named")
    assert all("'PHYSICAL' memory limit" in each for each in named())
    provisioning = cluster.client.cluster().provisioning
    assert provisioning is not None
    assert all("exit code -104" in each.reason for each in provisioning.ended)
    full.touch()
    cluster.wait_state(job, "RUNNING")

    def goes_on() -> bool:
        status = cluster.status(job)
        return status is not None and status.checkpoint is not None

    wait_until(goes_on, "it goes on in a new container")
    shown = cluster.headrace("status", job, "--exceptions")
    assert MORE_MEMORY in shown.out
    assert MORE_MEMORY in cluster.yarn.logs(cluster.application), "the coordinator has logged it"
    assert cluster.headrace("cancel", job).code == 0
