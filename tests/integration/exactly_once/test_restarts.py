"""Jobs are rescaled, stopped, resumed and killed, again and again: no row twice, none missing, none out of order."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.job import ClusterJob
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, kill, running_cluster
from support.clusters.stopping_points import StoppingPoints
from support.kafka.broker import consume_all, create_topic, running_broker, unique_topic
from support.kafka.open_transactions import ONGOING, open_transactions, require_none_left, require_none_open
from support.kafka.steady_feed import SteadyFeed
from support.patience import BROKER_SESSION, CLUSTER_TIMES_TO_FENCE
from support.processes.running import wait_until
from support.third_party_site import third_party_path

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

VERSIONS = """\
name: {name}
parallelism: 2
checkpoint: {{interval: 500ms}}
restart: {{strategy: exponential-delay, initial: 200ms, max: 1s}}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: {name}-a, start: earliest}}
    format: json
    schema: {{key: string not null, value: int64 not null}}
    on_error: skip
steps:
  sums:
    from: rows
    key_by: [key]
    aggregate: {{n: count(*), total: sum(value)}}
sinks:
  versions:
    from: sums
    kafka: {{brokers: "{brokers}", topic: {name}-versions, key: [key], mode: upsert, delivery: exactly-once}}
    format: json
"""
Version = tuple[int, int]
"""Rows, and the total of their values."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Slots for three subtasks."""
    folder = tmp_path_factory.mktemp("r")
    site = third_party_path(folder / "site")
    with running_cluster(folder, workers=1, slots=3, python_path=site, times=CLUSTER_TIMES_TO_FENCE) as running:
        yield running


@contextmanager
def halting(broker: EmbeddedBroker) -> Iterator[None]:
    """A broker that stands still half of the time: what is sent to it waits, and is sent again."""
    pid, ended = broker.pid, threading.Event()
    assert pid is not None

    def halt() -> None:
        while not ended.wait(0.2):
            os.kill(pid, signal.SIGSTOP)
            ended.wait(0.2)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=halt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def sums_of(broker: EmbeddedBroker, topic: str) -> dict[str, Version]:
    """The reference: what the rows come to, by key."""
    sums: dict[str, Version] = defaultdict(lambda: (0, 0))
    for record in consume_all(broker, topic):
        if (record.value or b"").startswith(b"{"):
            row = json.loads(record.value or b"")
            n, total = sums[row["key"]]
            sums[row["key"]] = (n + 1, total + row["value"])
    return dict(sums)


def versions_of(broker: EmbeddedBroker, topic: str) -> dict[tuple[str, int], list[Version]]:
    """By key and partition, in the order of the log."""
    versions: dict[tuple[str, int], list[Version]] = defaultdict(list)
    for record in consume_all(broker, topic):
        row = json.loads(record.value or b"")
        versions[row["key"], record.partition].append((row["n"], row["total"]))
    return dict(versions)


def test_versions_of_a_key_never_go_back(cluster: Cluster, broker: EmbeddedBroker) -> None:
    """Across epochs, a killed slot and rescaling: the last reader has the newest version."""
    with versions_job(cluster, broker) as job:
        kill_and_rescale(job, 1)


@pytest.mark.full
def test_versions_of_a_key_never_go_back_on_a_halting_broker(cluster: Cluster, tmp_path: Path) -> None:
    """The same while requests wait for the broker and are sent again."""
    # it halts, and is not to be fenced for that: it would forget the markers of commits
    with (
        running_broker(tmp_path / "kafka", settings=BROKER_SESSION) as broker,
        versions_job(cluster, broker) as job,
        halting(broker),
    ):
        for parallelism in (1, 2):
            kill_and_rescale(job, parallelism)


@contextmanager
def versions_job(cluster: Cluster, broker: EmbeddedBroker) -> Iterator[ClusterJob]:
    """A job that writes versions of sums while rows come; at the end each key has each of its versions once."""
    name = unique_topic("versions")
    rows, versions = (create_topic(broker, f"{name}-{kind}", 2) for kind in ("a", "versions"))
    text = VERSIONS.format(name=name, brokers=broker.bootstrap)
    job = ClusterJob(cluster, cluster.folder / f"{name}.yaml", text)
    with SteadyFeed(broker.bootstrap, {rows: 2}) as feed:
        job.submit()
        yield job
        job.wait_checkpoint()
        with feed.paused():
            expected = sums_of(broker, rows)
            wait_until(
                lambda: {key: found[-1] for (key, _), found in versions_of(broker, versions).items()} == expected,
                "the last version of each key is what its rows come to",
            )
    require_in_order(versions_of(broker, versions), len(expected))
    job.cancel()
    require_none_open(broker, job.job)


def kill_and_rescale(job: ClusterJob, parallelism: int) -> None:
    """A slot is killed; once the job has recovered it is rescaled."""
    job.wait_checkpoint()
    attempt = job.attempt()
    kill(job.slots()[0])
    job.wait_attempt_after(attempt)
    job.wait_checkpoint()
    job.rescale(parallelism)


def require_in_order(versions: Mapping[tuple[str, int], Sequence[Version]], keys: int) -> None:
    """Versions of a key are in one partition, each once, in ascending order."""
    assert len(versions) == keys, "a key has one partition"
    for key, series in versions.items():
        counts = [n for n, _ in series]
        assert counts == sorted(set(counts)), f"versions of {key} go back, or come twice: {counts}"
        assert len(counts) > 2


@pytest.mark.full
def test_rescaled_while_rows_come(cluster: Cluster, broker: EmbeddedBroker, flow: Flow) -> None:
    for parallelism in (1, 3, 2):
        done = cluster.headrace("rescale", flow.job, "--parallelism", str(parallelism))
        assert done.code == 0, done.err
        flow.wait_checkpoint()
        assert len(flow.slots()) == parallelism
        require_none_left(broker, flow)
    flow.settle()


def test_stopped_and_taken_up_again_and_again(cluster: Cluster, broker: EmbeddedBroker, flow: Flow, stops: int) -> None:
    """Rows come all the while, a job lasts for moments; `pytest --stops N` says how often."""
    client, jobs = cluster.client, set()
    for number in range(stops):
        wish = client.stop(flow.job, str(cluster.folder / "saved") if number % 2 else None)
        path = client.wait_trigger(wish).path
        assert path is not None
        require_none_open(broker, flow.job)
        jobs.add(flow.job)
        flow.job = client.resubmit(flow.job, path)
        cluster.wait_state(flow.job, "RUNNING")
    assert len(jobs) == stops
    flow.wait_checkpoint()
    flow.settle()
    require_none_left(broker, flow)


def test_an_old_savepoint_commits_nothing_of_the_job_that_went_on(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints
) -> None:
    """It is started beside the job, which stands before a commit; it knows that job's names, and leaves them alone."""
    saved = cluster.headrace("savepoint", flow.job, "old")
    assert saved.code == 0, saved.err
    flow.wait_checkpoint()
    attempt = cluster.client.status(flow.job).attempt
    topics = {
        kind: create_topic(broker, unique_topic(kind), 2) for kind in ("windows", "kept_rows", "late_rows", "bad")
    }
    elsewhere = [f"sinks.{kind}.stopping_kafka.topic={topic}" for kind, topic in topics.items() if kind != "bad"]
    elsewhere.append(f"sources.events.on_error.dead_letter={topics['bad']}")
    other = ClusterJob(cluster, cluster.folder / "other.yaml", Path(flow.file(1)).read_text())

    with points.held_at("before-commit"):
        prepared = open_transactions(broker, flow.job, [ONGOING])
        assert prepared
        sets = [part for each in elsewhere for part in ("--set", each)]
        other.submit("--from-savepoint", saved.out.strip(), "--allow-duplicate", *sets)
        other.wait_checkpoint()
        assert set(open_transactions(broker, flow.job)) >= set(prepared)
        other.cancel()
    flow.wait_checkpoint()
    flow.settle()
    assert cluster.client.status(flow.job).attempt == attempt, "its transactions were its own all the while"
    require_none_open(broker, other.job)
