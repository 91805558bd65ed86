"""confluent-kafka and polars, exactly once: one Python object per message, results and offsets in transactions."""

from __future__ import annotations

import io
import sys
import uuid
from collections import deque
from collections.abc import Mapping
from itertools import repeat

import polars as pl
from bare_steps.partition_runs import PartitionRun, partition_runs
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from peers.contenders.bare_client import CONSUMER, PRODUCER, QUEUED_MAX, SEND_ROWS, Polled, Schema
from peers.jobs import PARTITIONS

CALL_MESSAGES, WAIT_S, TRANSACTION_S = 2_000, 0.02, 60.0


class TransactionalClient:
    """One open transaction at a time. schema: of the messages; batch_rows: of a poll."""

    def __init__(
        self, brokers: str, source: str, sink: str, schema: dict[str, pl.DataType], *, batch_rows: int
    ) -> None:
        self._source, self._sink, self._schema, self._batch_rows = source, sink, schema, batch_rows
        self._consumer = Consumer({"bootstrap.servers": brokers} | CONSUMER)
        self._consumer.assign([TopicPartition(source, number, 0) for number in range(PARTITIONS)])
        self._producer = Producer(
            {"bootstrap.servers": brokers, "transactional.id": f"peers-bare-{uuid.uuid4()}"}
            | PRODUCER
            | {"delivery.report.only.error": True, "on_delivery": _on_delivery}
        )
        self._producer.init_transactions(TRANSACTION_S)
        self._producer.begin_transaction()
        self._sent_batches = 0

    def poll(self) -> Polled | None:
        values: list[bytes] = []
        runs: list[PartitionRun] = []
        while len(values) < self._batch_rows:
            messages = self._consumer.consume(CALL_MESSAGES, WAIT_S)
            if not messages:
                break
            runs += partition_runs(messages, len(values))
            values += [message.value() or b"" for message in messages]
        self._producer.poll(0)
        return Polled(_parsed(values, self._schema), runs) if values else None

    def finish(self, partition: int) -> None:
        self._consumer.pause([TopicPartition(self._source, partition)])

    def send(self, rows: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        rows.write_ndjson(buffer)
        lines = buffer.getvalue().split(b"\n")
        lines.pop()
        for begin in range(0, len(lines), SEND_ROWS):
            while len(self._producer) > QUEUED_MAX:
                self._producer.poll(0.01)
            chunk, partition = lines[begin : begin + SEND_ROWS], self._sent_batches % PARTITIONS
            # the fastest way to call a function for each element without a result
            deque(map(self._producer.produce, repeat(self._sink), chunk, repeat(None), repeat(partition)), maxlen=0)
            self._sent_batches += 1

    def commit(self, positions: Mapping[int, int]) -> None:
        offsets = [TopicPartition(self._source, partition, offset) for partition, offset in positions.items()]
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), TRANSACTION_S)
        self._producer.commit_transaction(TRANSACTION_S)
        self._producer.begin_transaction()

    def close(self) -> None:
        self._producer.abort_transaction(TRANSACTION_S)
        self._consumer.close()


def _parsed(values: list[bytes], schema: Schema) -> pl.DataFrame:
    """Parses with the faster of polars' two parsers: numbers 20 % faster by the first, nested rows by the second."""
    if not any(kind.is_nested() for kind in schema.values()):
        return pl.read_ndjson(b"\n".join(values), schema=schema)
    text = pl.Series(values, dtype=pl.Binary).cast(pl.String)
    return text.str.json_decode(pl.Struct(schema)).struct.unnest()


def _on_delivery(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        sys.exit(f"delivery: {error}")
