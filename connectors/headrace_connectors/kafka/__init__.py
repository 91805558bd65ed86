"""Kafka topics as source and sink, through librdkafka.

`config` has the settings of a pipeline file, `connector` opens the live halves. The enumerator discovers partitions;
readers and writers are the data path.
"""

from headrace.connect.registry import Connector
from headrace_connectors.kafka.connector import KafkaSinkConfig, KafkaSourceConfig

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
