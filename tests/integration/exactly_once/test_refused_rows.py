"""A sink leaves rows out while slots are killed: each row is once in the output or once in the dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.job import ClusterJob
from support.clusters.session import Cluster, kill, running_cluster
from support.kafka.broker import Record, consume_all, create_topic, unique_topic
from support.kafka.open_transactions import require_none_open
from support.kafka.steady_feed import SteadyFeed
from support.patience import CLUSTER_TIMES_TO_FENCE
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

PIPELINE = """\
name: {name}
parallelism: 2
checkpoint: {{interval: 500ms}}
restart: {{strategy: exponential-delay, initial: 200ms, max: 1s}}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: {name}-rows, start: earliest}}
    format: json
    schema: {{id: string not null, value: int64 not null}}
    on_error: skip
steps:
  keyed:
    from: rows
    select: {{id: id, key: "case when value % 3 = 0 then null else id end"}}
sinks:
  out:
    from: keyed
    kafka: {{brokers: "{brokers}", topic: {name}-out, key: [key], mode: upsert, delivery: exactly-once}}
    format: json
    on_error: {{dead_letter: {name}-dead}}
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Slots for two subtasks, and one more."""
    with running_cluster(tmp_path_factory.mktemp("r"), workers=1, slots=3, times=CLUSTER_TIMES_TO_FENCE) as running:
        yield running


def test_each_row_is_once_in_the_output_or_once_in_the_dead_letters(cluster: Cluster, broker: EmbeddedBroker) -> None:
    name = unique_topic("refused")
    topics = [create_topic(broker, f"{name}-{kind}", 2) for kind in ("rows", "out", "dead")]
    job = ClusterJob(cluster, cluster.folder / "p.yaml", PIPELINE.format(name=name, brokers=broker.bootstrap))
    with SteadyFeed(broker.bootstrap, {topics[0]: 2}) as feed:
        job.submit()
        for _ in range(3):
            job.wait_checkpoint()
            attempt = job.attempt()
            kill(job.slots()[0])
            job.wait_attempt_after(attempt)
        job.wait_checkpoint()
        with feed.paused():
            rows = [row for record in consume_all(broker, topics[0]) if (row := row_of(record)) is not None]
            bad = {row["id"] for row in rows if row["value"] % 3 == 0}
            good = {row["id"] for row in rows} - bad
            wait_until(lambda: ids(broker, topics[1]).keys() >= good, "every good row is written")
            wait_until(lambda: ids(broker, topics[2]).keys() >= bad, "every bad row is a dead letter")
            written, letters = ids(broker, topics[1]), ids(broker, topics[2])
    assert min(len(good), len(bad)) > 20
    assert (written, letters) == (Counter(good), Counter(bad))
    job.cancel()
    require_none_open(broker, job.job)


def row_of(record: Record) -> dict[str, Any] | None:
    value = record.value or b""
    return json.loads(value) if value.startswith(b"{") else None


def ids(broker: EmbeddedBroker, topic: str) -> Counter[str]:
    return Counter(json.loads(record.value or b"")["id"] for record in consume_all(broker, topic))
