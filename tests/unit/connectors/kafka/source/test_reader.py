from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.connect.source import MessageBatch, SourceContext, Split, SplitId
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.kafka.source import reader as reading
from headrace_connectors.kafka.source.fetched import NOTHING, Columns, Fetched, FetchEvent
from headrace_connectors.kafka.source.reader import KafkaReader
from headrace_connectors.kafka.source.runs import Piece

SPLIT = SplitId("t", 0)
CONFIG = KafkaSourceConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
CONTEXT = SourceContext("p", "n", schema_of({"v": "string"}), "raw")


class Fetcher:
    """Fetches what it was given, then nothing; every log ends at 10."""

    chunk_rows = 100

    def __init__(self, *fetched: Fetched) -> None:
        self._fetched = list(fetched)
        self.asked: list[int] = []
        """The most records of each fetch."""

    def fetch(self, rows_max: int, _wait_s: float) -> Fetched:
        self.asked.append(rows_max)
        return self._fetched.pop(0) if self._fetched else NOTHING

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        pass

    def unassign(self, split: SplitId) -> None:
        pass

    def known_end(self, _split: SplitId) -> int:
        return 10


def test_the_lag_of_a_poll_does_not_change_with_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    end = FetchEvent(KafkaError(KafkaError._PARTITION_EOF), SPLIT, 4)
    monkeypatch.setattr(reading, "open_fetcher", lambda _: Fetcher(NOTHING, Fetched(events=[end])))
    reader = KafkaReader(CONFIG, CONTEXT)
    reader.assign([Split(SPLIT, 0, 4)])
    first = reader.poll(0)
    second = reader.poll(0)
    assert second.finished == {SPLIT}
    assert (dict(first.lag), dict(second.lag)) == ({SPLIT: 10}, {})


def record(offset: int) -> Fetched:
    columns = Columns(pa.array([b"v"], pa.binary()))
    return Fetched([Piece(SPLIT, 0, 1, np.array([offset], dtype=np.int64))], columns)


def test_after_a_fetch_without_records_the_first_record_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = Fetcher(NOTHING, NOTHING, record(0), record(1), NOTHING)
    monkeypatch.setattr(reading, "open_fetcher", lambda _: fetcher)
    reader = KafkaReader(CONFIG, CONTEXT)
    reader.assign([Split(SPLIT, 0, None)])
    polled = reader.poll(60_000)
    assert isinstance(polled.batch, MessageBatch)
    assert polled.batch.positions.tolist() == [0, 1]
    # one record at a time while there is none; then those behind it, as many as there are
    assert fetcher.asked == [100, 1, 1, 100]
