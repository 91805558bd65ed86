"""Asks the brokers where partitions begin and end, many at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.connect.source import SplitId
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, answered, known_cluster, translated

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_PAUSE_S = 0.1
_SETTLING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._NOENT,  # the client: "no leaders found"
    }
)
"""A partition gets another leader, or the first one: the topic is there, for it was found."""


class ListedOffsets:
    """Of one cluster."""

    def __init__(self, admin: AdminClient, watch: ClientWatch, brokers: str) -> None:
        self._admin = admin
        self._watch = watch
        self._brokers = brokers

    def of(self, ids: Iterable[SplitId], spec: OffsetSpec, *, committed_only: bool = True) -> dict[SplitId, int]:
        """What the broker answers for each partition; -1 where no record is as young as asked.

        committed_only   the end is the last stable offset: before the first transaction that is open
        """
        asked = {TopicPartition(split.topic, split.partition): spec for split in ids}
        if not asked:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                return self._asked(asked, level)
            except KafkaException as cause:
                self._watch.raise_if_hopeless()
                if cause.args[0].code() not in _SETTLING or time.monotonic() >= deadline:
                    raise translated(cause.args[0], self._brokers) from cause
            time.sleep(_PAUSE_S)
            # the client remembers which leaders it was told of
            known_cluster(self._admin, self._watch)

    def _asked(self, asked: Mapping[TopicPartition, OffsetSpec], level: IsolationLevel) -> dict[SplitId, int]:
        futures = self._admin.list_offsets(dict(asked), isolation_level=level, request_timeout=CONNECT_TIMEOUT_S)
        return {
            SplitId(at.topic, at.partition): int(answered(future, self._watch).offset) for at, future in futures.items()
        }
