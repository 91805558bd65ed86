"""A stranger holds hundreds of idle connections open at every port of a cluster: jobs deploy and run all the same."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support.clusters.session import Cluster, running_cluster
from support.clusters.shuffled import SHUFFLED
from support.processes.running import WAIT_SECONDS, wait_until

IDLE = 1_100
"""More than one listener of a slot has room for."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers with a slot each, whose slots reach each other by TCP: the path is too long for a Unix socket."""
    with running_cluster(tmp_path_factory.mktemp("c" * 60), workers=2, slots=1) as running:
        yield running


@contextmanager
def idle(ports: set[int]) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        # this process holds them all; those of the cluster keep the limit that they have
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for port in ports:
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS))
        yield


def ports_of(cluster: Cluster) -> set[int]:
    """Where its processes listen at TCP ports."""
    sockets: set[str] = set()
    for pid in cluster.processes():
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it has just been closed
                sockets.add(str(link.readlink()))
    lines = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()]
    return {
        int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets
    }


@pytest.mark.full
def test_a_job_deploys_and_runs_while_strangers_wait_at_every_port(cluster: Cluster) -> None:
    file = cluster.folder / "shuffled.yaml"
    file.write_text(SHUFFLED)
    published = json.loads((cluster.home / "cluster" / "coordinator.json").read_text())
    # a cluster has started when its workers have joined: slots come later
    cluster.wait_free(2)
    known = {int(published[name].rpartition(":")[2]) for name in ("url", "grpc")}
    ports = ports_of(cluster)
    assert known < ports and len(ports) == len(known) + 2, "those of the coordinator and of two idle slots"
    with idle(ports):
        done = cluster.headrace("submit", str(file), "--json")
        assert done.code == 0, done.err
        job = done.json["job_id"]
        cluster.wait_state(job, "RUNNING")
        saved = cluster.headrace("savepoint", job, "saved", "--json")
        assert saved.code == 0, saved.err
        assert cluster.hosts_of(job) == {"worker-1": 1, "worker-2": 1}
        assert cluster.headrace("status", job, "--json").json["attempt"] == 1
        assert cluster.headrace("cancel", job).code == 0
        wait_until(lambda: cluster.state(job) == "CANCELED", "it ends")
