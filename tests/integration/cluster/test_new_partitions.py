"""Partitions and topics that appear while a job runs: their rows come in by themselves, also after a kill."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # re-exported

from support.broker import create_topic
from support.cluster import Cluster, kill
from support.cluster_flow import Flow

pytestmark = pytest.mark.broker


def test_partitions_are_added_to_a_topic(flow: Flow) -> None:
    topic = f"{flow.stem}-in-a"
    with flow.feed.paused():
        flow.wait_exact()
        admin = AdminClient({"bootstrap.servers": flow.broker.bootstrap})
        for added in admin.create_partitions([NewPartitions(topic, 4)]).values():
            added.result()
        flow.feed.add(topic, range(2, 4))
        flow.greet()

    with flow.recovering("slot killed after partitions were added"):
        kill(flow.slots()[0])


def test_a_new_topic_matches_the_pattern(cluster: Cluster, flow: Flow) -> None:
    topic = f"{flow.stem}-in-c"
    with flow.feed.paused():
        flow.wait_exact()
        create_topic(flow.broker, topic, 2)
        flow.feed.add(topic, range(2))
        flow.greet()

    with flow.recovering("coordinator killed after a topic was added"):
        kill(cluster.coordinator())
        cluster.start()


def test_they_stay_the_job_s_in_a_savepoint(flow: Flow) -> None:
    flow.go_on(flow.stop("--savepoint", "saved"), parallelism=3)


def test_what_appears_while_nobody_looks(cluster: Cluster, flow: Flow) -> None:
    """A topic that is made, and written to, while the job stands still."""
    topic = f"{flow.stem}-in-d"
    path = flow.stop("--savepoint", "saved")
    with flow.feed.paused():
        create_topic(flow.broker, topic, 1)
        flow.feed.add(topic, range(1))
        flow.submit("--from-savepoint", path)
        flow.greet()
    flow.settle()
