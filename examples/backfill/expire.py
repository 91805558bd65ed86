"""`python expire.py TOPIC OFFSET`: deletes what is before OFFSET in every partition, as retention does in a week."""

from __future__ import annotations

import os
import sys

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

topic, offset = sys.argv[1], int(sys.argv[2])
brokers = os.environ.get("KAFKA_BROKERS", "localhost:9092")
admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
try:
    partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions
except KafkaException as error:
    sys.exit(f"no Kafka broker answers at {brokers}: {error.args[0].str()}")
for deleted in admin.delete_records([TopicPartition(topic, number, offset) for number in partitions]).values():
    deleted.result(timeout=60)
