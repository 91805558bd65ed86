"""The cluster of one job, or of one program, on two hosts: the same command on each; a host is lost, the other goes on.

Both hosts are homes of this machine. A lost one is killed with everything that runs on it, its attendant too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.own_hosts import join, lose_leader
from support.clusters.standbys import StandbyCluster
from support.patience import SHORT_STANDBY_LEASES
from support.processes.running import finish, start_with, wait_until

pytestmark = pytest.mark.turns(3, of="files")

PROGRAM = """\
import headrace as hr

with open("starts.txt", "a") as starts:
    starts.write("started\\n")
job = hr.submit("flow.yaml")
with open("job.txt", "w") as file:
    file.write(job)
raise SystemExit(0 if hr.wait(job).state == "FINISHED" else 7)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandbyCluster]:
    """Nothing of it runs yet."""
    made = StandbyCluster(tmp_path, f"file://{tmp_path}/shared", times=SHORT_STANDBY_LEASES)
    yield made
    made.end()


@pytest.fixture
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with running_flow(cluster, broker, exactly_once=True) as running:
        yield running


@pytest.mark.full
def test_the_cluster_of_one_job(cluster: StandbyCluster, flow: Flow) -> None:
    hosts = [join(cluster, flow.file(), "per-job") for _ in range(2)]
    flow.job, again = (host.printed for host in hosts)
    assert again == flow.job
    flow.wait_checkpoint()
    with flow.recovering("host of the leader lost"):
        lose_leader(cluster, hosts)
    # a new host in its place
    assert join(cluster, flow.file(), "per-job").printed == flow.job
    flow.finish()
    wait_until(lambda: not cluster.processes(), "both hosts have seen the end of the job, and ended")


def test_the_cluster_of_one_program(cluster: StandbyCluster, flow: Flow) -> None:
    flow.file()
    (cluster.folder / "app.py").write_text(PROGRAM)
    hosts = [join(cluster, "app.py", "application") for _ in range(2)]
    job = cluster.folder / "job.txt"
    wait_until(lambda: job.exists() and bool(job.read_text()), "the program has submitted its job")
    flow.job = job.read_text()
    flow.wait_checkpoint()
    starts = cluster.folder / "starts.txt"
    assert starts.read_text() == "started\n"
    with flow.recovering("host of the leader lost"):
        lost = lose_leader(cluster, hosts)
    wait_until(lambda: starts.read_text() == 2 * "started\n", "the program is started beside the next leader")
    assert [each.job_id for each in cluster.client.jobs()] == [flow.job]
    flow.finish()
    wait_until(lambda: not cluster.processes(), "the program has ended, and its cluster with it")
    (left,) = set(hosts) - {lost}
    assert (left.home / "cluster" / "program.exit").read_text() == "0\n"
    assert job.read_text() == flow.job


@pytest.mark.full
def test_a_session_cluster(cluster: StandbyCluster, flow: Flow) -> None:
    """Of two hosts, of which one leaves in order and comes back."""

    def on(name: str, *arguments: str) -> None:
        own = {**cluster.environment(), "HEADRACE_HOME": str(cluster.home / name)}
        done = finish(start_with(own, ("cluster", *arguments), cluster.folder))
        assert done.code == 0, done.err

    def workers() -> int:
        return len(cluster.client.cluster().workers)

    start = ("start", "--ha", cluster.election, "--slots", "2")
    for name in ("a", "b"):
        on(name, *start)
        shutil.copy(cluster.home / name / "cluster" / "token", cluster.token_file)
    assert workers() == 2
    flow.submit()
    flow.wait_checkpoint()
    term = cluster.term()
    leader = os.fsencode(f"HEADRACE_HOME={cluster.home / 'a'}")
    leaves = "a" if leader in Path(f"/proc/{cluster.leader()}/environ").read_bytes().split(b"\0") else "b"
    with flow.recovering("host of the leader leaves"):
        on(leaves, "stop")
        cluster.wait_later_term(term)
    assert workers() == 1
    on(leaves, *start)
    assert workers() == 2
    flow.finish()
    for name in ("a", "b"):
        on(name, "stop")
    assert not cluster.processes()
