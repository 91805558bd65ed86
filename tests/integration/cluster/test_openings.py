"""Jobs that do not come to run: what a connector refuses ends `submit`; a stop ends what waits for slots."""

from __future__ import annotations

import pytest

from support.clusters.session import Cluster
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

NOWHERE = """\
name: nowhere
sources:
  numbers:
    kafka: {brokers: "127.0.0.1:1", topic: numbers, start: earliest}
    format: json
    schema: {n: int64 not null}
sinks:
  out: {from: numbers, print: {}, format: json}
"""
WIDE = """\
name: wide
parallelism: 5
sources:
  numbers:
    generator: {rate: 10, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out: {from: numbers, print: {}, format: json}
"""


def test_a_broker_that_is_wrong_fails_submit_as_it_fails_run(cluster: Cluster) -> None:
    path = cluster.folder / "nowhere.yaml"
    path.write_text(NOWHERE)
    submitted = cluster.headrace("submit", str(path))
    assert submitted.code == 3
    assert "error: no Kafka broker answers at 127.0.0.1:1" in submitted.err
    assert "correct `brokers:`" in submitted.err
    job = submitted.out.strip()
    status = cluster.client.status(job)
    assert (status.state, status.restarts) == ("FAILED", 0)

    again = cluster.headrace("submit", str(path), "--json")
    assert again.code == 3
    assert again.json["state"] == "FAILED"
    assert again.json["failure"].startswith("no Kafka broker answers at 127.0.0.1:1")


def test_a_job_that_waits_for_slots_ends_within_the_bound_of_its_stop(cluster: Cluster) -> None:
    """There are four slots."""
    path = cluster.folder / "wide.yaml"
    path.write_text(WIDE)
    submitted = cluster.headrace("submit", str(path))
    assert submitted.code == 0, submitted.err
    job = submitted.out.strip()
    # `submit` waits half a minute for sources and sinks, and a slow host may need longer to open them
    wait_until(lambda: cluster.client.status(job).message == "waiting for 5 slots", "sources and sinks are open")
    assert cluster.client.status(job).state == "SCHEDULING"

    stopped = cluster.headrace("stop", job, "--within", "2s")
    assert (stopped.code, stopped.out) == (0, ""), stopped.err
    assert "ended without a checkpoint" in stopped.err
    assert cluster.client.status(job).state == "CANCELED"
