"""Clusters of pods that serve one job, or one application, and are gone after its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.kafka.broker import broker_config
from support.kubernetes.coordinator_account import make_account
from support.kubernetes.node_cluster import NodeCluster
from support.kubernetes.pod_cluster import PodCluster
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

PROGRAM = """\
import os

import headrace as hr

os.chdir("/ledger")
with open("starts.txt", "a") as starts:
    starts.write("started\\n")
job = hr.submit("flow.yaml")
with open("job.txt", "w") as file:
    file.write(job)
raise SystemExit(0 if hr.wait(job).state == "FINISHED" else 7)
"""


@pytest.fixture(scope="module")
def broker_here(nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Listens where pods reach it, and this test too."""
    config = broker_config(tmp_path_factory.mktemp("b") / "kafka", settings=BROKER_SESSION)
    with EmbeddedBroker(replace(config, host=nodes.here)) as running:
        yield running


@pytest.fixture
def cluster(nodes: NodeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodCluster]:
    """Nothing of it runs yet."""
    for name, value in nodes.environment.items():
        # clients in this process
        monkeypatch.setenv(name, value)
    with nodes.namespace("own") as namespace:
        made = PodCluster(nodes, namespace, tmp_path)
        make_account(made.connection, namespace)
        yield made
        made.end()
        made.connection.close()


@pytest.fixture
def flow(cluster: PodCluster, broker_here: EmbeddedBroker) -> Iterator[Flow]:
    with running_flow(cluster, broker_here, exactly_once=True) as running:
        yield running


def submit(cluster: PodCluster, file: str, mode: str, *, coordinators: int) -> str:
    """Gives what the command printed."""
    description = cluster.write(cluster.description(workers=2, coordinators=coordinators))
    done = cluster.headrace("submit", file, "--mode", mode, *cluster.named, "--config", description)
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.mark.broker
def test_the_cluster_of_one_job(cluster: PodCluster, flow: Flow) -> None:
    flow.job = submit(cluster, flow.file(), "per-job", coordinators=1)
    flow.wait_checkpoint()
    again = cluster.headrace("submit", flow.file(), "--mode", "per-job", *cluster.named, "--config", "cluster.yaml")
    assert "a cluster flights is there" in again.err
    before = cluster.leader()
    with flow.recovering("the only coordinator killed, with its attendant"):
        cluster.kill_pod(before)
        wait_until(lambda: cluster.leader() not in {"", before}, "its substitute leads")
    assert [each.job_id for each in cluster.client.jobs()] == [flow.job]
    flow.finish()
    wait_until(lambda: not cluster.remains(), "the cluster has seen the end of its job, and is gone")


@pytest.mark.full
@pytest.mark.broker
def test_the_cluster_of_one_program(cluster: PodCluster, flow: Flow) -> None:
    cluster.description()
    flow.file()
    for name in ("flow.yaml", "doubling.py"):
        shutil.copy(cluster.folder / name, cluster.ledger)
    (cluster.folder / "app.py").write_text(PROGRAM)
    assert submit(cluster, str(cluster.folder / "app.py"), "application", coordinators=2) == "flights"
    job, starts = cluster.ledger / "job.txt", cluster.ledger / "starts.txt"
    wait_until(job.exists, "the program has submitted its job")
    flow.job = job.read_text()
    flow.wait_checkpoint()
    assert starts.read_text() == "started\n"
    leader = cluster.leader()
    with flow.recovering("pod of the leader killed"):
        cluster.kill_pod(leader)
        wait_until(lambda: starts.read_text() == 2 * "started\n", "the program is started beside the next leader")
    assert [each.job_id for each in cluster.client.jobs()] == [flow.job]
    flow.finish()
    wait_until(lambda: not cluster.remains(), "the program has ended, and its cluster with it")
