from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError

from headrace.connect.source import SourceContext, Split, SplitId
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.kafka.source import reader as reading
from headrace_connectors.kafka.source.fetched import NOTHING, Fetched, FetchEvent
from headrace_connectors.kafka.source.reader import KafkaReader

SPLIT = SplitId("t", 0)


class Fetcher:
    """Fetches what it was given, then nothing; every log ends at 10."""

    chunk_rows = 100

    def __init__(self, *fetched: Fetched) -> None:
        self._fetched = list(fetched)

    def fetch(self, _rows_max: int, _wait_s: float) -> Fetched:
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
    config = KafkaSourceConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
    reader = KafkaReader(config, SourceContext("p", "n", schema_of({"v": "string"}), "raw"))
    reader.assign([Split(SPLIT, 0, 4)])
    first = reader.poll(0)
    second = reader.poll(0)
    assert second.finished == {SPLIT}
    assert (dict(first.lag), dict(second.lag)) == ({SPLIT: 10}, {})
