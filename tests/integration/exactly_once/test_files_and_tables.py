"""Sinks that commit elsewhere than in Kafka, in a job whose processes are killed: each row is in one file, once, and in
the table, once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.job import ClusterJob
from support.clusters.session import Cluster, kill
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.kafka.steady_feed import SteadyFeed
from support.processes.running import wait_until
from support.storage.postgres import Postgres
from support.storage.sql_tables import Tables

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

Victims = Callable[[Cluster, ClusterJob], list[int]]
"""The pids that a round kills."""
PIPELINE = """\
name: {name}
parallelism: 2
checkpoint: {{interval: 300ms}}
restart: {{strategy: exponential-delay, initial: 100ms, max: 500ms}}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: {name}, start: earliest}}
    format: json
    schema: {{id: string not null, value: int64 not null}}
    on_error: skip
sinks:
  files:
    from: rows
    files: {{path: "{folder}", delivery: exactly-once}}
    format: json
  tables:
    from: rows
    sql: {{url: "{url}", table: copies, delivery: exactly-once, create_table: true}}
"""


@pytest.fixture
def tables(postgres: Postgres) -> Iterator[Tables]:
    """An empty database."""
    tables = Tables(postgres.url(postgres.create_database()))
    yield tables
    tables.close()


def ids_of_topic(broker: EmbeddedBroker, topic: str) -> list[str]:
    """The reference; what is no row is left out."""
    values = [record.value or b"" for record in consume_all(broker, topic)]
    return sorted(json.loads(value)["id"] for value in values if value.startswith(b"{"))


def ids_of_files(folder: Path) -> list[str]:
    """Of files that have appeared."""
    lines = [line for path in folder.glob("part-*") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def ids_of_table(tables: Tables) -> list[str]:
    """Of rows that have been moved into it."""
    return sorted(str(row[0]) for row in tables.rows("copies", "id"))


def slot(_cluster: Cluster, job: ClusterJob) -> list[int]:
    """One of those that run the job."""
    return job.slots()[:1]


def hosts(cluster: Cluster, _job: ClusterJob) -> list[int]:
    """The connector host; waits for one."""
    found: list[int] = []

    def some() -> bool:
        found[:] = cluster.connector_hosts()
        return bool(found)

    wait_until(some, "the connector host runs")
    return found


def slots_and_hosts(cluster: Cluster, job: ClusterJob) -> list[int]:
    """All processes of the job."""
    return job.slots() + hosts(cluster, job)


def coordinator(cluster: Cluster, job: ClusterJob) -> list[int]:
    """With its connector host."""
    return [cluster.coordinator(), *hosts(cluster, job)]


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param((slot, coordinator), id="two-rounds"),
        pytest.param((slot, hosts, slots_and_hosts, coordinator), id="all-rounds", marks=pytest.mark.full),
    ],
)
def test_every_row_once_through_kills(
    cluster: Cluster, broker: EmbeddedBroker, tables: Tables, tmp_path: Path, rounds: Sequence[Victims]
) -> None:
    name, folder = create_topic(broker, unique_topic("both"), 2), tmp_path / "out"
    text = PIPELINE.format(name=name, brokers=broker.bootstrap, folder=folder, url=tables.url)
    job = ClusterJob(cluster, cluster.folder / f"{name}.yaml", text)
    with SteadyFeed(broker.bootstrap, {name: 2}) as feed:
        job.submit()
        job.wait_checkpoint()
        for victims in rounds:
            strike(cluster, job, victims)
        with feed.paused():
            expected = ids_of_topic(broker, name)
            wait_until(lambda: ids_of_files(folder) == expected, "each row is in one file, once")
            wait_until(lambda: ids_of_table(tables) == expected, "each row is in the table, once")
            # before more rows come, which would be staged when it ends
            job.cancel()
    assert tables.count("copies__headrace_staged") == 0
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    markers = {name for name in left if name.startswith(".committed-")}
    assert {name[:5] for name in left - markers} == {"part-"}, "nothing else that is hidden is left"
    assert len(markers) <= 2, "those of the last epoch: one for each subtask"


@pytest.mark.full
def test_a_reader_takes_every_file_at_once_through_kills(
    cluster: Cluster, broker: EmbeddedBroker, tables: Tables, tmp_path: Path
) -> None:
    """It moves a file away as soon as it sees it, as readers of a folder do."""
    name, folder, taken = create_topic(broker, unique_topic("taken"), 2), tmp_path / "out", tmp_path / "taken"
    text = PIPELINE.format(name=name, brokers=broker.bootstrap, folder=folder, url=tables.url)
    job = ClusterJob(cluster, cluster.folder / f"{name}.yaml", text)
    with SteadyFeed(broker.bootstrap, {name: 2}) as feed, taking(folder, taken):
        job.submit()
        job.wait_checkpoint()
        for victims in (hosts, coordinator, slots_and_hosts, coordinator, hosts):
            strike(cluster, job, victims)
        with feed.paused():
            expected = ids_of_topic(broker, name)
            wait_until(lambda: ids_of_files(taken) == expected, "each row was in one file, once")
            job.cancel()
    assert ids_of_files(folder) == []


@contextmanager
def taking(folder: Path, taken: Path) -> Iterator[None]:
    """A thread moves files that have appeared in `folder` to `taken`, without a pause."""
    taken.mkdir()
    over = threading.Event()

    def take() -> None:
        while not over.wait(0.001):
            for path in folder.glob("part-*"):
                path.rename(taken / path.name)

    thread = threading.Thread(target=take, name="reader")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def strike(cluster: Cluster, job: ClusterJob, victims: Victims) -> None:
    """kill -9 of the victims; returns after the next attempt's first checkpoint."""
    attempt = job.attempt()
    kill(*victims(cluster, job))
    if not cluster.processes("headrace-coordinator"):
        cluster.start_again()
    job.wait_attempt_after(attempt)
    job.wait_checkpoint()
