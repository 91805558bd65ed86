"""Fifty kills of slots under load, with state on disk: every row counts once, in output and state, and no file is left
over or missing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import GRACE_MS, delete_orphans
from headrace.checkpoint.journal.journal import own_files
from headrace.checkpoint.paths import STATE
from headrace.checkpoint.stores.opening import open_store
from support.clusters.session import Cluster, kill
from support.clusters.state_on_disk import checkpointed, local_bytes, require_exact, submitted
from support.processes.running import wait_until

pytestmark = pytest.mark.full

KILLS = 50


def moments(cluster: Cluster, job: str) -> Iterator[None]:
    """Moments for kills: as soon as an attempt runs, has state on disk, or has completed a checkpoint. Each fifth is
    one of the last kind, so that the job gets ahead."""
    draw = random.Random(50)
    for number in range(KILLS):
        epoch = checkpointed(cluster, job)
        cluster.wait_state(job, "RUNNING")
        kind = "checkpoint" if number % 5 == 0 else draw.choice(["running", "disk", "checkpoint"])
        if kind == "disk":
            wait_until(lambda: local_bytes(cluster, job) > 0, "state is in local files")
        if kind == "checkpoint":
            wait_until(lambda before=epoch: checkpointed(cluster, job) > before, "a checkpoint is complete")  # type: ignore[misc]
        yield


def test_after_fifty_kills_state_and_output_are_an_oracles(cluster: Cluster, tmp_path: Path) -> None:
    storage = tmp_path / "checkpoints"
    job = submitted(cluster, tmp_path, name="killed-over-and-over", storage=str(storage), parallelism=2)
    draw = random.Random(1)
    for _ in moments(cluster, job):
        kill(draw.choice(cluster.wait_busy_slots(job)))
    epoch = checkpointed(cluster, job)
    wait_until(lambda: checkpointed(cluster, job) > epoch and local_bytes(cluster, job) > 0, "the job goes on")
    path = cluster.headrace("stop", job, "--savepoint", str(tmp_path / "savepoints"), "--json").json["path"]
    require_exact(path, tmp_path)

    store = open_store(str(storage / job))
    journal = JournalStore(store, "", "").load()
    delete_orphans(store, journal, round(time.time() * 1000) + 2 * GRACE_MS)
    named = {file for record in journal.checkpoints for file in own_files(record.manifest)}
    assert set(store.list(STATE)) == named
