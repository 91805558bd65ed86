"""Clusters on YARN that serve one job, or one application: they end with it, with the right final status."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.remains import WITH_STACKS
from support.patience import CLUSTER_TIMES
from support.processes.running import wait_until
from support.spark.packed_python import packed_python
from support.yarn.cluster import Yarn
from support.yarn.session import YarnSession

SECRET = "never-in-a-script"
PROGRAM = """\
import os
import sys

import headrace as hr
import helping

folder = os.environ["FLOW_FOLDER"]
os.chdir(folder)
with open("seen.txt", "w") as seen:
    seen.write(f"{sys.prefix} {os.environ['FLOW_SECRET']} {helping.WORD}")
with open("starts.txt", "a") as starts:
    starts.write("started\\n")
job = hr.submit("flow.yaml")
with open("job.txt", "w") as file:
    file.write(job)
raise SystemExit(0 if hr.wait(job).state == "FINISHED" else 7)
"""


@pytest.fixture
def cluster(yarn: Yarn, tmp_path: Path) -> Iterator[YarnSession]:
    """Nothing of it runs yet."""
    made = YarnSession(yarn, tmp_path, "own")
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def flow(cluster: YarnSession, broker: EmbeddedBroker) -> Iterator[Flow]:
    with running_flow(cluster, broker, exactly_once=True) as running:
        yield running


@pytest.mark.broker
def test_the_cluster_of_one_job(cluster: YarnSession, flow: Flow) -> None:
    flow.job = cluster.submit_alone(flow.file(), "per-job")
    flow.wait_checkpoint()
    with flow.recovering("ApplicationMaster killed, with its attendant"):
        cluster.kill_coordinator()
    assert [each.job_id for each in cluster.client.jobs()] == [flow.job]
    flow.finish()
    assert cluster.outcome() == "SUCCEEDED"
    cluster.wait_nothing_remains()


@pytest.mark.full
@pytest.mark.broker
def test_a_job_that_is_canceled_is_a_killed_application(cluster: YarnSession, flow: Flow) -> None:
    flow.job = cluster.submit_alone(flow.file(), "per-job")
    flow.wait_checkpoint()
    done = cluster.headrace("cancel", flow.job)
    assert done.code == 0, done.err
    assert cluster.outcome() == "KILLED"
    cluster.wait_nothing_remains()


@pytest.mark.broker
def test_the_cluster_of_one_program(cluster: YarnSession, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOW_SECRET", SECRET)
    environment = packed_python(cluster.folder / "packed.tar.gz", left_out=("__pycache__",))
    (cluster.folder / "helping.py").write_text("WORD = 'helped'\n")
    flow.file()
    (cluster.folder / "app.py").write_text(PROGRAM)
    folder = cluster.folder / "program"
    folder.mkdir()
    for name in ("flow.yaml", "doubling.py"):
        shutil.copy(cluster.folder / name, folder)
    described = {
        "environment": str(environment),
        "python": None,
        "files": [str(cluster.folder / "helping.py")],
        "secrets": ["FLOW_SECRET"],
        "env": {**WITH_STACKS, **CLUSTER_TIMES, "FLOW_FOLDER": str(folder)},
    }
    application = cluster.submit_alone(str(cluster.folder / "app.py"), "application", **described)
    assert application == cluster.application
    job, starts = folder / "job.txt", folder / "starts.txt"
    wait_until(lambda: job.exists() and bool(job.read_text()), "the program has submitted its job")
    prefix, secret, helped = (folder / "seen.txt").read_text().split()
    assert (Path(prefix).name, secret, helped) == ("environment", SECRET, "helped")
    # the node's scripts, which everybody who may read the logs can read
    scripts = [path.read_text() for path in cluster.container_files("launch_container.sh")]
    assert scripts
    assert not any(SECRET in script for script in scripts)
    flow.job = job.read_text()
    flow.wait_checkpoint()
    with flow.recovering("ApplicationMaster killed, with the program"):
        cluster.kill_coordinator()
        wait_until(lambda: starts.read_text() == 2 * "started\n", "the program is started beside the next one")
    assert [each.job_id for each in cluster.client.jobs()] == [flow.job]
    flow.finish()
    assert cluster.outcome() == "SUCCEEDED"
    cluster.wait_nothing_remains()
