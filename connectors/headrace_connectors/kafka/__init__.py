"""Kafka topics as source and sink, through librdkafka.

The two configs here are the settings of `config`, with the methods that open the live halves: the enumerator discovers
partitions, readers and writers are the data path. The live halves import the client library. They are imported only
when they are opened, so that validating a pipeline stays cheap; they receive the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.access import AccessCheck
from headrace.connect.dead_letters import DeadLetters
from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import Connector
from headrace.connect.row_check import Encode, RowCheck
from headrace.connect.sink import Committer, SinkConfig, SinkContext, Writer
from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext
from headrace_connectors.kafka.config import KafkaSinkSettings, KafkaSourceSettings


class KafkaSourceConfig(KafkaSourceSettings, SourceConfig):
    """Reads topics: committed records only, each partition in order, from `start` to `stop`."""

    def open_access_check(self, context: SourceContext) -> AccessCheck:
        """Checks brokers, topics, and the rights to read them and to commit offsets."""
        from headrace_connectors.kafka.access.judgement import Needs
        from headrace_connectors.kafka.access.probe import KafkaAccessCheck

        needs = Needs(self.brokers, self.fixed_topics or (), pattern=self.pattern, group=self.group_id(context))
        return KafkaAccessCheck(needs, self.properties)

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the enumerator, which finds partitions and resolves `start` and `stop` with the broker."""
        from headrace_connectors.kafka.source.enumerator import KafkaEnumerator

        return KafkaEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Opens a consumer of assigned partitions; with an archive it reads that first."""
        if self.archive is not None:
            from headrace_connectors.kafka.source.archived_reader import ArchivedReader

            return ArchivedReader(self, context)
        from headrace_connectors.kafka.source.reader import KafkaReader

        return KafkaReader(self, context)


class KafkaSinkConfig(KafkaSinkSettings, SinkConfig):
    """Writes records to a topic; positions advance only when every record is acknowledged.

    Exactly once: in transactions, which the checkpoint's completion commits. Readers need isolation.level
    read_committed, their default in most clients.
    """

    def check(self, context: SinkContext) -> list[str]:
        """Problems with the checkpoint settings, and settings with which the committer cannot connect or log in."""
        problems = super().check(context)
        if not self.exactly_once:
            return problems
        from headrace_connectors.kafka.clients.client_security import unmapped

        return problems if (problem := unmapped(self.properties)) is None else [problem, *problems]

    def open_access_check(self, context: SinkContext) -> AccessCheck:
        """Checks brokers, the topic, and the rights to write it, to create it and to use transactions."""
        from headrace_connectors.kafka.access.judgement import Needs
        from headrace_connectors.kafka.access.probe import KafkaAccessCheck

        needs = Needs(
            self.brokers,
            (self.topic,),
            writes=True,
            creates=self.create_topic is not None,
            in_transactions=self.exactly_once,
        )
        return KafkaAccessCheck(needs, self.properties)

    def open_committer(self, context: SinkContext) -> Committer | None:
        """Opens the committer of the writers' transactions."""
        if not self.exactly_once:
            return None
        from headrace_connectors.kafka.transactions.committer import KafkaCommitter

        return KafkaCommitter(self, context)

    def open_dead_letters(self, context: SinkContext) -> DeadLetters:
        """Opens access to the dead letters in the topic: reads them, and sends them again."""
        from headrace_connectors.kafka.dead_letters import KafkaDeadLetters

        return KafkaDeadLetters(self, context)

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher:
        """Publishes staged rows in transactions, with either `delivery`."""
        from headrace_connectors.kafka.publishing.publisher import KafkaPublisher

        return KafkaPublisher(self, context, share)

    def remembers_ms(self) -> int:
        """The brokers' retention of offsets of groups without members."""
        from headrace_connectors.kafka.publishing.marker import markers_kept_ms

        return markers_kept_ms(self)

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """Rejects rows without a key in upsert mode, and records that exceed the client's limit."""
        assert encode is not None, "a Kafka sink needs encoded messages"
        from headrace_connectors.kafka.sink.record_sender import KafkaRowCheck

        return KafkaRowCheck(self, context, encode)

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a producer to the topic."""
        if self.exactly_once:
            from headrace_connectors.kafka.sink.transactional_writer import TransactionalWriter

            return TransactionalWriter(self, context)
        from headrace_connectors.kafka.sink.producers import KafkaWriter

        return KafkaWriter(self, context)

    def prepare(self, context: SinkContext) -> None:
        """Checks that the topic exists, or creates it if `create_topic` is set; checks the transactions' timeout."""
        from headrace_connectors.kafka.clients.topics import ensure_topic

        ensure_topic(self, context.node)
        if self.exactly_once:
            from headrace_connectors.kafka.transactions.txn_admin import require_timeout_allowed

            require_timeout_allowed(self)


CONNECTOR = Connector(
    name="kafka",
    summary="Kafka topics: reads committed records from any position; writes keys and headers, exactly once if asked",
    source=KafkaSourceConfig,
    sink=KafkaSinkConfig,
    example_source="""\
kafka:
  brokers: localhost:9092
  topic: flights
  start: earliest
format: json
schema:
  origin: string not null
  dep_delay: float64
""",
    example_sink="""\
kafka:
  brokers: localhost:9092
  topic: delays
  key: [origin]
format: json
""",
    host_modules=(
        "headrace_connectors.kafka.source.enumerator",
        "headrace_connectors.kafka.transactions.committer",
        "headrace_connectors.kafka.transactions.txn_admin",
    ),
)

__all__ = ["CONNECTOR", "KafkaSourceConfig", "KafkaSinkConfig"]
