"""Partitions and topics that appear while a job runs: it reads them without a restart, and also after a kill."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # re-exported

from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, kill
from support.kafka.broker import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.turns(2, of="files")]


def test_partitions_are_added_and_a_new_topic_matches_the_pattern(cluster: Cluster, flow: Flow) -> None:
    grown, new = f"{flow.stem}-in-a", f"{flow.stem}-in-c"
    with flow.feed.paused():
        flow.wait_exact()
        admin = AdminClient({"bootstrap.servers": flow.broker.bootstrap})
        for added in admin.create_partitions([NewPartitions(grown, 4)]).values():
            added.result()
        create_topic(flow.broker, new, 2)
        flow.feed.add(grown, range(2, 4))
        flow.feed.add(new, range(2))
        flow.greet()

    with flow.recovering("slot and coordinator killed after partitions came"):
        kill(flow.slots()[0], cluster.coordinator())
        cluster.start_again()


@pytest.mark.full
def test_a_topic_appears_while_the_job_stands_still(flow: Flow) -> None:
    """The savepoint keeps the partitions that came while the job ran; the topic is made and written to after it."""
    topic = f"{flow.stem}-in-d"
    path = flow.stop("--savepoint", "saved")
    with flow.feed.paused():
        create_topic(flow.broker, topic, 1)
        flow.feed.add(topic, range(1))
        flow.submit("--from-savepoint", path, parallelism=3)
        flow.greet()
    flow.settle()
