"""`python expire.py TOPIC OFFSET`: deletes what is before OFFSET in every partition, as retention does in a week."""

from __future__ import annotations

import os
import sys

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

topic, offset = sys.argv[1], int(sys.argv[2])
admin = AdminClient({"bootstrap.servers": os.environ.get("KAFKA_BROKERS", "localhost:9092")})
partitions = admin.list_topics(topic).topics[topic].partitions
for deleted in admin.delete_records([TopicPartition(topic, number, offset) for number in partitions]).values():
    deleted.result()
