"""Reads a topic back, as read_committed consumers see it, and computes the number and the digest of its records, batch
by batch.

Owns the positions at which the output begins, and the reasons why a topic proves nothing: compaction, expired records,
a topic that was deleted and created again. The engine interprets the totals.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from headrace.connect.sink import OutputSeen
from headrace.connect.source import MessageBatch, SourceContext, Split, SplitId
from headrace.core.text.digest_text import add_digests
from headrace.core.types import Schema
from headrace.kernels.kafka.row_digest import digest_of
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    answered,
    open_admin,
    topic_partitions,
)
from headrace_connectors.kafka.clients.properties import connection_settings
from headrace_connectors.kafka.config import KafkaSinkSettings, KafkaSourceSettings
from headrace_connectors.kafka.requests.topic_logs import TopicLogs
from headrace_connectors.kafka.source.listed_offsets import EARLIEST, LATEST, ListedOffsets
from headrace_connectors.kafka.source.reader import KafkaReader

POLL_ROWS_MAX = 32_768
POLL_MS = 200


class _TopicEnds:
    """The first and last offsets of the partitions of a sink's topic."""

    def __init__(self, config: KafkaSinkSettings) -> None:
        self.topic = config.topic
        self._logs = TopicLogs(config.brokers, config.properties)
        self.watch = ClientWatch(config.brokers)
        self.admin: AdminClient = open_admin(config.brokers, config.properties, self.watch)
        self._offsets = ListedOffsets(self.admin, self.watch, config.brokers)

    def partitions(self) -> list[SplitId]:
        """The topic's partitions; empty if it does not exist. Raises ExternalError."""
        found = topic_partitions(self.admin, self.watch)
        return [SplitId(self.topic, number) for number in found.get(self.topic, ())]

    def log(self) -> str:
        """The identity of the topic; empty if it has none. Raises ExternalError."""
        try:
            return self._logs.of([self.topic]).get(self.topic, "")
        finally:
            self._logs.close()

    def first(self, ids: list[SplitId]) -> dict[SplitId, int]:
        return self._offsets.of(ids, EARLIEST)

    def last(self, ids: list[SplitId]) -> dict[SplitId, int]:
        """The log ends, including open transactions."""
        return self._offsets.of(ids, LATEST, committed_only=False)

    def stable(self, ids: list[SplitId]) -> dict[SplitId, int]:
        """The last stable offsets: read_committed consumers see the records before them."""
        return self._offsets.of(ids, LATEST)


def output_begin(config: KafkaSinkSettings) -> dict[str, Any]:
    """The positions at which future output begins: `{"topic": .., "log": .., "offsets": {partition: offset}}`. log: the
    topic's identity; empty if it has none."""
    ends = _TopicEnds(config)
    offsets = ends.last(ends.partitions())
    return {
        "topic": config.topic,
        "log": ends.log(),
        "offsets": {str(split.partition): at for split, at in sorted(offsets.items())},
    }


class TopicAudit:
    """`connect.sink.OutputAudit` of a topic. begin: the result of `output_begin`."""

    def __init__(self, config: KafkaSinkSettings, begin: Mapping[str, Any]) -> None:
        self._ends = _TopicEnds(config)
        offsets = {int(number): int(at) for number, at in begin["offsets"].items()}
        ids = self._ends.partitions()
        self._lost = tuple(number for number in offsets if SplitId(config.topic, number) not in ids)
        first, last = self._ends.first(ids), self._ends.last(ids)
        # a partition that is not in `begin` was added later: its output begins at offset 0
        asked = {split: offsets.get(split.partition, 0) for split in ids}
        doubts = self._reasons(config.topic, begin["topic"], asked, first, last)
        # committables of earlier versions have no identity
        if begin.get("log") and (now := self._ends.log()) and now != begin["log"]:
            doubts.append("the topic was created again, or is one of another cluster")
        self._doubts = tuple(doubts)
        self._reader = _reader(config)
        self._splits = {split: Split(split, min(max(at, first[split]), last[split])) for split, at in asked.items()}
        self._reader.assign(list(self._splits.values()))
        self._rows = 0
        self._digest = 0

    def _reasons(
        self,
        topic: str,
        begun: str,
        asked: Mapping[SplitId, int],
        first: Mapping[SplitId, int],
        last: Mapping[SplitId, int],
    ) -> list[str]:
        reasons = []
        if begun != topic:
            reasons.append(f"the job first wrote to topic {begun}, and now writes to {topic}")
        if self._lost:
            reasons.append(f"partition {', '.join(map(str, self._lost))} is gone: the topic was created again")
        expired = {split: at for split, at in asked.items() if first[split] > at}
        if expired:
            split = min(expired)
            count = sum(first[each] - at for each, at in expired.items())
            reasons.append(f"{count} offsets have expired: {split} begins at {first[split]}, the job at {asked[split]}")
        if past := [split for split, at in asked.items() if at > last[split]]:
            reasons.append(f"{min(past)} ends before the offset where the job began: the topic was created again")
        policy = _cleanup_policy(self._ends.admin, self._ends.watch, topic)
        if policy is not None and "compact" in policy:
            reasons.append("the topic is compacted: it keeps only the last record of each key")
        return reasons

    def read(self, timeout_ms: int) -> OutputSeen:
        """See OutputAudit."""
        deadline = time.monotonic() + timeout_ms / 1000
        settled = not self._splits
        while not settled and time.monotonic() < deadline:
            polled = self._reader.poll(POLL_MS)
            if isinstance(polled.batch, MessageBatch):
                self._rows += len(polled.batch)
                self._digest = add_digests(self._digest, digest_of(polled.batch.values, polled.batch.keys))
            settled = len(polled.at_end) == len(self._splits)
        return OutputSeen(self._rows, self._digest, settled, (*self._doubts, *(self._held_back() if settled else ())))

    def _held_back(self) -> list[str]:
        """The reason why readers do not see all records: an open transaction, of any producer; empty if there is
        none."""
        ids = list(self._splits)
        stable = self._ends.stable(ids)
        held = sorted(split for split, end in self._ends.last(ids).items() if end > stable[split])
        return [f"open transactions block readers of {', '.join(map(str, held))}"] if held else []

    def close(self) -> None:
        """Closes the consumer."""
        self._reader.close()


class Audited:
    """The methods that `AuditedCommitter` adds to `Committer`, for the committer of a topic."""

    _config: KafkaSinkSettings

    def begin(self) -> dict[str, Any]:
        """The current end of the topic, by partition."""
        return output_begin(self._config)

    def audit(self, begin: Mapping[str, Any]) -> TopicAudit:
        """Opens an audit of the topic from `begin` on."""
        return TopicAudit(self._config, begin)


def _reader(config: KafkaSinkSettings) -> KafkaReader:
    source = KafkaSourceSettings.model_validate(
        {
            "brokers": config.brokers,
            "topic": config.topic,
            "properties": connection_settings(config.properties),
            "group": "headrace-audit",
        }
    )
    context = SourceContext(
        pipeline="audit",
        node=config.topic,
        schema=Schema(()),
        poll_rows_max=POLL_ROWS_MAX,
        wants_keys=True,
        wants_headers=False,
        wants_timestamps=False,
    )
    return KafkaReader(source, context)


def _cleanup_policy(admin: AdminClient, watch: ClientWatch, topic: str) -> str | None:
    """The topic's cleanup policy; None if it cannot be read: then the audit assumes that the topic is not compacted."""
    try:
        (future,) = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic)], request_timeout=CONNECT_TIMEOUT_S
        ).values()
        entry = answered(future, watch).get("cleanup.policy")
    except KafkaException:
        return None
    return None if entry is None else str(entry.value)
