from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

import pytest

from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.committer_conformance import CommitterConformance
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from headrace_connectors.kafka import KafkaSinkConfig, KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.kafka.clients import both_consumers, every_producer
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

COLUMNS = schema_of({"id": "int64"})


@pytest.fixture(scope="module")
def one_topic(broker: EmbeddedBroker) -> SourceUnderTest:
    topic = create_topic(broker, unique_topic("one"), 3)
    numbers = range(90)
    produce(broker, topic, [f'{{"id":{n}}}' for n in numbers], partition=[n * n % 3 for n in numbers])
    config = KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topic": topic, "stop": "latest"})
    return SourceUnderTest(config, SourceContext("p", "n", COLUMNS, "json"), splits=3, rows=90)


@pytest.fixture(scope="module")
def two_topics(broker: EmbeddedBroker) -> SourceUnderTest:
    topics = [create_topic(broker, unique_topic(name), 2) for name in ("two-a", "two-b")]
    for topic in topics:
        produce(broker, topic, [f"{topic}-{n}" for n in range(30)], partition=[n % 2 for n in range(30)])
    config = KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topics": topics, "stop": "latest"})
    return SourceUnderTest(config, SourceContext("p", "n", COLUMNS, "json"), splits=4, rows=60)


@both_consumers
@pytest.mark.usefixtures("consumer_kind")
class TestOneTopic(SourceConformance):
    @pytest.fixture
    def source(self, one_topic: SourceUnderTest) -> SourceUnderTest:
        return one_topic


@both_consumers
@pytest.mark.usefixtures("consumer_kind")
class TestTwoTopics(SourceConformance):
    @pytest.fixture
    def source(self, two_topics: SourceUnderTest) -> SourceUnderTest:
        return two_topics


class KafkaSink(SinkConformance):
    options: ClassVar[dict[str, object]] = {}

    @pytest.fixture
    def sink(self, broker: EmbeddedBroker) -> SinkUnderTest:
        topic = create_topic(broker, unique_topic("out"), 3)
        given = {"brokers": broker.bootstrap, "topic": topic} | self.options
        return SinkUnderTest(
            KafkaSinkConfig.model_validate(given),
            SinkContext("j", "n", 0, 1, SCHEMA, format="json"),
            visible=lambda: [json.loads(record.value or b"") for record in consume_all(broker, topic)],
            broken=KafkaSinkConfig.model_validate(given | {"topic": unique_topic("missing")}),
        )


@every_producer
@pytest.mark.usefixtures("producer_kind")
class TestKeyedSink(KafkaSink):
    options: ClassVar[dict[str, object]] = {"key": ["key"]}


class TestSinkWithHeaders(KafkaSink):
    options: ClassVar[dict[str, object]] = {"key": ["key"], "headers": {"n": "number"}, "timestamp": "event"}


class TestUnkeyedSink(KafkaSink):
    def test_order_of_a_key_is_kept(self, sink: SinkUnderTest) -> None:
        """Without a key there is no order over partitions to keep."""


@every_producer
@pytest.mark.usefixtures("producer_kind")
class TestExactlyOnceSink(SinkConformance, CommitterConformance):
    @pytest.fixture
    def sink(self, broker: EmbeddedBroker) -> Iterator[SinkUnderTest]:
        topic = create_topic(broker, unique_topic("out"), 3)
        given = {"brokers": broker.bootstrap, "topic": topic, "key": ["key"], "delivery": "exactly-once"}
        config = KafkaSinkConfig.model_validate(given)
        # transactional ids are the broker's: each test is a job of its own
        context = SinkContext(topic, "n", 0, 1, SCHEMA, format="json", attempt=1)
        committer = config.open_committer(context)
        assert committer is not None

        def visible() -> Rows:
            # a commit is answered before its markers are written
            wait_until(
                lambda: not any(each.state.startswith("Prepare") for each in committer.open_transactions()),
                "markers of ended transactions",
            )
            return [json.loads(record.value or b"") for record in consume_all(broker, topic)]

        yield SinkUnderTest(
            config,
            context,
            visible=visible,
            broken=KafkaSinkConfig.model_validate(given | {"topic": unique_topic("missing")}),
        )
        committer.close()
