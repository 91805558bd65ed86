"""`headrace explain JOB --live` names what slows a job down: a key, a sink, a partition; or that it keeps up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.client.figure_models import Bottleneck
from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster, running_cluster
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import wait_until
from support.third_party_site import third_party_path

pytestmark = pytest.mark.broker

SKEWED = """\
name: {name}
parallelism: 2
batch: {{max_rows: 200}}
sources:
  events:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{customer: string not null, n: int64 not null}}
steps:
  priced:
    from: events
    partition: {{hash: [customer]}}
    map: {{function: "pricing:priced", schema: {{customer: string not null, price: int64 not null}}}}
sinks:
  out:
    from: priced
    files: {{path: {name}-out}}
    format: json
"""
PRICING = """\
import threading

import polars as pl

WAITS = threading.Event()


def priced(rows: pl.DataFrame) -> pl.DataFrame:
    # a millisecond for each row, as a lookup elsewhere takes
    WAITS.wait(rows.height / 1_000)
    return rows.select("customer", price=pl.col("n") * 2)
"""
SLOW_SINK = """\
name: {name}
batch: {{max_rows: 100}}
sources:
  events:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{customer: string not null, n: int64 not null}}
steps:
  some: {{from: events, filter: n >= 0}}
sinks:
  warehouse:
    from: some
    waiting: {{wait_ms: 100}}
"""
QUIET = """\
name: {name}
sources:
  events:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{customer: string not null, at: timestamp not null}}
    time: {{column: at}}
steps:
  hourly:
    from: events
    key_by: [customer]
    window: {{tumbling: 1s}}
    aggregate: {{events: count(*)}}
sinks:
  out:
    from: hourly
    files: {{path: {name}-out}}
    format: json
"""


def customers(rows: int) -> list[str]:
    """Rows of which nine in ten are of one customer."""
    return [json.dumps({"customer": "big" if n % 10 else f"c{n}", "n": n}) for n in range(rows)]


@contextmanager
def running(cluster: Cluster, text: str, **fields: str) -> Iterator[str]:
    """The job of a pipeline, which is cancelled at the end."""
    path = cluster.folder / f"{fields['name']}.yaml"
    path.write_text(text.format(**fields))
    done = cluster.headrace("submit", str(path), "--json")
    assert done.code == 0, done.err
    job = done.json["job_id"]
    try:
        yield job
    finally:
        cluster.headrace("cancel", job)


def verdict(cluster: Cluster, job: str, is_meant: Callable[[Bottleneck], bool]) -> Bottleneck:
    """The first verdict that is meant."""
    seen: list[Bottleneck] = []

    def said() -> bool:
        seen.append(cluster.client.bottleneck(job))
        return is_meant(seen[-1])

    wait_until(said, "the verdict is another one")
    return seen[-1]


def test_a_skewed_key_is_named(cluster: Cluster, broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("skewed"), 4)
    produce(broker, topic, customers(60_000))
    (cluster.folder / "pricing.py").write_text(PRICING)
    with running(cluster, SKEWED, name="skewed", brokers=broker.bootstrap, topic=topic) as job:
        found = verdict(cluster, job, lambda seen: seen.kind == "skewed-keys" and seen.key is not None)
        text = cluster.headrace("explain", "skewed", "--live").out
        document = cluster.headrace("explain", job, "--live", "--json").json

    assert (found.node, found.key) == ("priced", "big")
    assert "key customer = big has" in found.verdict
    assert any(line.startswith("heaviest keys (customer") for line in found.evidence)
    assert found.remedy is not None and "salt" in found.remedy
    assert "priced is skewed" in text and "remedy:" in text
    assert document["job_id"] == job and document["kind"] == "skewed-keys"

    ended = cluster.client.bottleneck(job)
    assert ended.kind == "not-running"


@pytest.mark.full
def test_a_slow_sink_is_named(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> None:
    folder = tmp_path_factory.mktemp("slow")
    topic = create_topic(broker, unique_topic("slow"), 1)
    produce(broker, topic, customers(50_000))
    with (
        running_cluster(folder, workers=1, slots=1, python_path=third_party_path(folder / "site")) as cluster,
        running(cluster, SLOW_SINK, name="slow", brokers=broker.bootstrap, topic=topic) as job,
    ):
        found = verdict(cluster, job, lambda seen: seen.kind == "slow-sink")

    assert found.node == "warehouse"
    assert "sink warehouse (waiting) is slow" in found.verdict
    assert any("in `write`" in line for line in found.evidence)
    assert found.remedy is not None and "parallelism" in found.remedy


@pytest.mark.full
def test_a_quiet_partition_is_named_and_warned_about(cluster: Cluster, broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("quiet"), 2)
    now_ms = int(time.time() * 1_000)
    rows = [json.dumps({"customer": f"c{n % 3}", "at": now_ms + n}) for n in range(30)]
    produce(broker, topic, rows, partition=0)
    with running(cluster, QUIET, name="quiet", brokers=broker.bootstrap, topic=topic) as job:
        found = verdict(cluster, job, lambda seen: seen.kind == "held-time")
        wait_until(lambda: bool(cluster.client.status(job).warnings), "a warning")
        (warning,) = cluster.client.status(job).warnings
        text = cluster.headrace("status", job).out
        # rows in it: it holds nothing back any more
        produce(broker, topic, rows, partition=1)
        kept_up = verdict(cluster, job, lambda seen: seen.kind == "keeps-up")
        wait_until(lambda: not cluster.client.status(job).warnings, "the warning is withdrawn")
        log = cluster.headrace("logs", job).out

    assert (found.node, found.topic, found.partition) == ("events", topic, 1)
    assert found.remedy is not None and "idle_after" in found.remedy
    assert (warning.node, warning.kind) == ("events", "quiet-partition")
    assert f"partition 1 of {topic} holds time back since" in warning.text
    assert "warning: source events: partition 1" in text
    assert log.count(f"partition 1 of {topic} holds time back") == 1
    assert "keeps up" in kept_up.verdict
