"""What YARN does to an application, and what it says: kills it, restarts below it, gives up an attempt that is
suspended, has no room, refuses.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.yarn.client import YarnClient
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow, running_flow
from support.processes.running import wait_until
from support.yarn.cluster import NODE_MEMORY_MB, Yarn, yarn_cluster
from support.yarn.session import YarnSession

EXPIRY_MS = 120_000
"""After so long without a call of its ApplicationMaster YARN gives an attempt up; the test suspends the one that has to
be late. An attempt that starts counts as well, and took 40 s on two cores that forty processes wanted."""


@pytest.fixture
def cluster(yarn: Yarn, tmp_path: Path) -> Iterator[YarnSession]:
    """Nothing of it runs yet; the test ends it."""
    made = YarnSession(yarn, tmp_path, "faults")
    yield made
    made.end()


@pytest.fixture
def own_yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A cluster whose ResourceManager remembers its applications, and is impatient."""
    folder = tmp_path_factory.mktemp("own")
    store = "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"
    settings = {
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": store,
        "yarn.resourcemanager.fs.state-store.uri": (folder / "state").as_uri(),
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.am.liveness-monitor.expiry-interval-ms": str(EXPIRY_MS),
    }
    with yarn_cluster(folder / "c", nodes=2, settings=settings) as running:
        yield running


@pytest.fixture
def own_cluster(own_yarn: Yarn, tmp_path: Path) -> Iterator[YarnSession]:
    """Of `own_yarn`; nothing of it runs yet."""
    made = YarnSession(own_yarn, tmp_path, "own")
    yield made
    made.end()


@pytest.mark.full
@pytest.mark.broker
def test_an_application_that_is_killed_leaves_nothing(
    cluster: YarnSession, yarn_client: YarnClient, broker: EmbeddedBroker
) -> None:
    cluster.start()
    with running_flow(cluster, broker, exactly_once=True) as flow:
        flow.submit()
        flow.wait_checkpoint()
        yarn_client.kill(cluster.application)
        assert cluster.outcome() == "KILLED"
        wait_until(lambda: not cluster.processes(), "no process is left")
        status = cluster.headrace("status", flow.job)
        assert "has ended, KILLED" in status.err
        logged = cluster.headrace("logs", flow.job)
        assert logged.code == 0, logged.err
        assert f"job {flow.job} (flow) is RUNNING" in logged.out, "the nodes have put the logs together"
        assert (cluster.staging / cluster.application).exists(), "nobody was there to delete it"
        first, cluster.application = cluster.application, ""
        cluster.start()
        assert not (cluster.staging / first).exists(), "the next start deletes it"
        cluster.wait_state(flow.job, "RUNNING")
        flow.wait_checkpoint()
        flow.finish()


@pytest.mark.full
@pytest.mark.broker
def test_an_attempt_that_is_suspended_is_replaced_and_ends(own_cluster: YarnSession, broker: EmbeddedBroker) -> None:
    own_cluster.start()
    with exact_flow(own_cluster, broker, exactly_once=True) as flow:
        zombie, before = own_cluster.coordinator(), own_cluster.workers()
        with flow.recovering("ApplicationMaster suspended past its expiry"):
            os.kill(zombie, signal.SIGSTOP)
            wait_until(lambda: own_cluster.coordinators() not in ([], [zombie]), "the next attempt runs")
        # the node kills what the ResourceManager has given up, also a process that is suspended
        wait_until(lambda: zombie not in own_cluster.coordinators(), "the one before is gone")
        assert own_cluster.workers() == before


@pytest.mark.full
@pytest.mark.broker
def test_the_resource_manager_is_restarted_below_a_job(
    own_yarn: Yarn, own_cluster: YarnSession, broker: EmbeddedBroker
) -> None:
    own_cluster.start()
    with exact_flow(own_cluster, broker, exactly_once=True) as flow:
        coordinator, workers = own_cluster.coordinator(), own_cluster.workers()
        own_yarn.resource_manager.restart()
        wait_until(lambda: own_yarn.nodes() == 2, "the nodes are back")
        flow.settle()
        done = own_cluster.headrace("rescale", flow.job, "--parallelism", "4")
        assert done.code == 0, done.err
        wait_until(lambda: len(own_cluster.workers()) == 4, "it grants containers again")
        assert set(workers) < set(own_cluster.workers())
        assert own_cluster.coordinator() == coordinator
        flow.settle()


@pytest.mark.full
@pytest.mark.broker
def test_a_queue_without_room_is_named(cluster: YarnSession, broker: EmbeddedBroker) -> None:
    # one worker fits a node beside nothing else
    cluster.start(memory=f"{NODE_MEMORY_MB}Mi")
    with running_flow(cluster, broker) as flow:
        submitted = cluster.headrace("submit", flow.file())
        assert submitted.code == 0, submitted.err
        job = submitted.out.strip()

        def is_named() -> bool:
            provisioning = cluster.client.cluster().provisioning
            return "left for this application" in str(provisioning)

        wait_until(is_named, "the cluster says what its job waits for")
        assert cluster.headrace("cancel", job).code == 0


@pytest.mark.full
def test_what_yarn_refuses_is_shown_in_its_words(cluster: YarnSession) -> None:
    for more, words in (
        ({"queue": "nowhere"}, "unknown queue"),
        ({"coordinator": {"memory": "900Gi"}}, "Invalid resource request"),
        ({"python": "/usr/bin/false"}, "cannot run headrace on YARN"),
        ({"files": ["/none/file"]}, "no such file"),
        ({"secrets": ["NOT_SET_ANYWHERE"]}, "NOT_SET_ANYWHERE is not set"),
        # refused by the ApplicationMaster, whose error is the application's
        ({"ledger": "ftp://host/ledger"}, "checkpoints cannot be kept at ftp://host/ledger"),
    ):
        named = ("--target", "yarn", "--name", cluster.name, "--config", cluster.description(**more))
        done = cluster.headrace("cluster", "start", *named)
        assert done.code in {1, 2}, done.err
        assert words in done.err
        assert "Traceback" not in done.err
    assert not list(cluster.staging.glob("*")), "nothing is staged for what is refused"
