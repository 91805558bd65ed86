"""The commands on a real job that writes exactly once: while it runs, and when it has been cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.local import LocalCluster, home_of_processes
from support.kafka.broker import create_topic, produce, unique_topic
from support.kafka.left_job import left_open
from support.kafka.open_transactions import wait_settled
from support.patience import CLUSTER_TIMES

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

PIPELINE = """\
name: counting
checkpoint: {{interval: 500ms}}
sources:
  numbers:
    generator: {{rate: 200, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
sinks:
  out:
    from: numbers
    kafka: {{brokers: "{brokers}", topic: "{topic}", key: [n], delivery: exactly-once}}
    format: json
"""
UNKNOWN = "headrace-ffffffffffff-out-1-0-0"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    for name, value in CLUSTER_TIMES.items():
        monkeypatch.setenv(name, value)
    with home_of_processes(tmp_path) as cluster:
        cluster.run("cluster", "start", "--workers", "1", "--slots", "1")
        yield cluster


def test_a_job_is_looked_at_and_proven_while_it_runs_and_after(
    cluster: LocalCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = create_topic(broker, unique_topic("counting"), 2)
    produce(broker, topic, [b"before the job"] * 3)
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    job = cluster.json("submit", "p.yaml")["job_id"]
    cluster.wait_status(job, lambda status: (status.checkpoint.epoch if status.checkpoint else 0) > 1, "to commit")

    (sink,) = cluster.json("audit", job)["sinks"]
    assert (sink["verdict"], sink["rows"] > 0) == ("proven", True)
    assert {each["safe"] for each in cluster.json("transactions", "list", job)["transactions"]} <= {"leave"}
    on_brokers = cluster.json("transactions", "list", "--brokers", broker.bootstrap)["transactions"]
    own = [(each["job_state"], each["safe"]) for each in on_brokers if each["job_id"] == job]
    assert set(own) <= {("RUNNING", "leave")}
    refused = cluster.run("transactions", "abort", job, "--yes", "--force", code=2)
    assert "commits and aborts its transactions itself" in refused.err

    cluster.run("cancel", job)
    cluster.run("transactions", "abort", "--brokers", broker.bootstrap, "--yes")
    wait_settled(broker, job)
    assert cluster.json("transactions", "list", job)["transactions"] == []
    assert "proven" in cluster.run("audit", job).out

    kept = left_open(broker, UNKNOWN, topic, 1)
    listed = cluster.json("transactions", "list", "--brokers", broker.bootstrap)["transactions"]
    (unknown,) = [each for each in listed if each["name"] == UNKNOWN]
    assert (unknown["safe"], unknown["by_force"], unknown["job_state"]) == ("leave", "abort", None)
    assert (
        "not safe"
        in cluster.run("transactions", "abort", "--brokers", broker.bootstrap, "--name", UNKNOWN, "--yes", code=2).err
    )
    cluster.run("transactions", "abort", "--brokers", broker.bootstrap, "--name", UNKNOWN, "--yes", "--force")
    listed = cluster.json("transactions", "list", "--brokers", broker.bootstrap)["transactions"]
    assert UNKNOWN not in {each["name"] for each in listed}
    del kept

    produce(broker, topic, [b"foreign"])
    found = cluster.json("audit", job, code=2)["sinks"][0]
    assert (found["verdict"], found["rows"] - found["expected_rows"]) == ("unprovable", 1)
