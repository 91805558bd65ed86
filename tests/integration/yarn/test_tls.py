"""A cluster on YARN whose processes speak TLS, by certificates of its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import exact_flow, running_flow
from support.yarn.cluster import Yarn
from support.yarn.session import WORKER_ROLE, YarnSession

pytestmark = [pytest.mark.full, pytest.mark.broker]


@pytest.fixture
def cluster(yarn: Yarn, tmp_path: Path) -> Iterator[YarnSession]:
    made = YarnSession(yarn, tmp_path, "secret")
    try:
        yield made
    finally:
        made.end()


def test_a_session_with_tls(cluster: YarnSession, broker: EmbeddedBroker) -> None:
    cluster.start_described(cluster.description(tls=True))
    application = next(each for each in cluster.yarn.applications() if each["id"] == cluster.application)
    assert application["state"] == "RUNNING"
    with exact_flow(cluster, broker, exactly_once=True) as flow:
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            # nobody else's authority has signed it
            urllib.request.urlopen(cluster.client.url, timeout=30)
        workers = cluster.processes(WORKER_ROLE)
        assert all("--tls-cert home/secrets/tls.crt" in line for line in workers.values())
        kept = cluster.workers()
        with flow.recovering("ApplicationMaster killed"):
            # the next one issues another certificate, by the same authority
            cluster.kill_coordinator()
        assert cluster.workers() == kept
        with flow.recovering("worker's container killed"):
            cluster.kill_worker()
            flow.wait_other_attempt()
    keys = cluster.container_files("home/secrets/ca.key")
    assert len(keys) == 1, "only the ApplicationMaster has the authority's key"
    scripts = [path.read_text() for path in cluster.container_files("launch_container.sh")]
    assert not any("PRIVATE KEY" in script for script in scripts)


def test_a_cluster_of_one_job_with_tls(cluster: YarnSession, broker: EmbeddedBroker) -> None:
    with running_flow(cluster, broker, exactly_once=True) as flow:
        flow.job = cluster.submit_alone(flow.file(), "per-job", tls=True)
        flow.wait_checkpoint()
        flow.finish()
    assert cluster.outcome() == "SUCCEEDED"
    cluster.wait_nothing_remains()
