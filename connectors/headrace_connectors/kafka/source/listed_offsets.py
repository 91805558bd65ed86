"""Lists begin and end offsets of many partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.connect.source import SplitId
from headrace.core.retry import Backoff, Retries
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, answered, known_cluster, translated

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_BACKOFF = Backoff(first_s=0.1, max_s=0.1)
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
"""Transient: a leader election. The topic exists, because it was found before."""


class ListedOffsets:
    """Lists offsets in one cluster."""

    def __init__(self, admin: AdminClient, watch: ClientWatch, brokers: str) -> None:
        self._admin = admin
        self._watch = watch
        self._brokers = brokers

    def of(self, ids: Iterable[SplitId], spec: OffsetSpec, *, committed_only: bool = True) -> dict[SplitId, int]:
        """The offset of each partition; -1 if no record is as recent as requested.

        committed_only   the end is the last stable offset: before the first open transaction
        """
        asked = {TopicPartition(split.topic, split.partition): spec for split in ids}
        if not asked:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        retries = Retries(_BACKOFF, CONNECT_TIMEOUT_S)
        while True:
            try:
                return self._asked(asked, level)
            except KafkaException as cause:
                self._watch.raise_if_hopeless()
                if cause.args[0].code() not in _SETTLING or not retries.pause():
                    raise translated(cause.args[0], self._brokers) from cause
            # the client caches leaders: refresh its metadata before the next try
            known_cluster(self._admin, self._watch)

    def _asked(self, asked: Mapping[TopicPartition, OffsetSpec], level: IsolationLevel) -> dict[SplitId, int]:
        futures = self._admin.list_offsets(dict(asked), isolation_level=level, request_timeout=CONNECT_TIMEOUT_S)
        return {
            SplitId(at.topic, at.partition): int(answered(future, self._watch).offset) for at, future in futures.items()
        }
