"""Exactly once on three brokers of which some are lost: while a commit is under way, while rows flow; or all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import Cluster, running_cluster
from support.clusters.stopping_points import StoppingPoints
from support.containers.kafka import KafkaContainers
from support.kafka.open_transactions import open_transactions, require_none_left, require_none_open
from support.third_party_site import third_party_path


@pytest.fixture(scope="module")
def kafka(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaContainers]:
    """Whoever takes a broker away brings it back."""
    with KafkaContainers(tmp_path_factory.mktemp("kafka"), brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> StoppingPoints:
    """Where the flow's sinks stop."""
    return StoppingPoints(tmp_path_factory.mktemp("p") / "points")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Not in containers: only brokers are lost here."""
    folder = tmp_path_factory.mktemp("c")
    with running_cluster(folder, workers=1, slots=2, python_path=third_party_path(folder / "site")) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, kafka: KafkaContainers, points: StoppingPoints) -> Iterator[Flow]:
    """Runs from the module's first test on; at the end it is drained, and then no transaction is open."""
    fields = f'points: "{points.folder}"'
    options = {"exactly_once": True, "sink": "stopping_kafka", "sink_fields": fields, "copies": 3}
    with exact_flow(cluster, kafka, **options) as running:
        yield running
    require_none_open(kafka, running.job)


def require_exact(kafka: KafkaContainers, flow: Flow) -> None:
    """It has gone on, every row is there once, and nothing of an earlier attempt is open."""
    flow.wait_checkpoint()
    flow.settle()
    require_none_left(kafka, flow)


def bring_back(kafka: KafkaContainers, broker: int) -> None:
    """It is started again, and any other one may be lost next."""
    kafka.start(broker)
    kafka.wait_in_sync()


@pytest.mark.full
def test_the_transactions_coordinator_dies_in_the_middle_of_a_commit(
    kafka: KafkaContainers, flow: Flow, points: StoppingPoints
) -> None:
    """Part of the epoch is committed; the rest is asked of the broker that comes after the dead one."""
    with points.held_at("mid-commit"):
        left = open_transactions(kafka, flow.job)
        dead = kafka.coordinator_of(left[0])
        kafka.kill(dead)
        points.let_go("mid-commit")
        require_exact(kafka, flow)
    bring_back(kafka, dead)


def test_the_leader_of_an_output_dies_while_rows_flow(kafka: KafkaContainers, flow: Flow) -> None:
    flow.wait_checkpoint()
    dead = kafka.leader_of(f"{flow.stem}-kept", 0)
    kafka.kill(dead)
    require_exact(kafka, flow)
    bring_back(kafka, dead)
    require_exact(kafka, flow)


@pytest.mark.full
def test_no_broker_answers_for_a_while(kafka: KafkaContainers, flow: Flow, outage_s: float) -> None:
    """All of them stand still with their connections open, then go on; `pytest --outage N` says for how long."""
    flow.wait_checkpoint()
    with kafka.all_paused():
        time.sleep(outage_s)
    require_exact(kafka, flow)
