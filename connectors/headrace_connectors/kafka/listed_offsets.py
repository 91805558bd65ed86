"""Asks the brokers where partitions begin and end, many at once."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.connect.source import SplitId
from headrace_connectors.kafka.client import CONNECT_TIMEOUT_S, ClientWatch, translated

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


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
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=CONNECT_TIMEOUT_S)
        offsets = {}
        for place, future in futures.items():
            try:
                offsets[SplitId(place.topic, place.partition)] = int(future.result().offset)
            except KafkaException as cause:
                self._watch.raise_if_hopeless()
                raise translated(cause.args[0], self._brokers) from cause
        return offsets
