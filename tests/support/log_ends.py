"""Where the logs of a topic begin and end, and whether all transactions that were ended stand in them.

A commit and an abort are answered before their markers are written, by a thread of the broker's own: until then readers
of committed records are held back before the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace_connectors.kafka.transaction_rules import Described
from headrace_connectors.kafka.txn_admin import TxnAdmin
from support.running import WAIT_SECONDS, wait_until

PATIENCE_SECONDS: Final = WAIT_SECONDS
"""How long a broker may take for one answer: as long as anything else that tests wait for."""
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """The numbers of a topic's partitions."""
    found = _admin(bootstrap).list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
    assert found.error is None, f"topic {topic}: {found.error}"
    return sorted(found.partitions)


def log_starts(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The first offset of each partition."""
    return _listed(bootstrap, topic, partitions, _FIRST, IsolationLevel.READ_UNCOMMITTED)


def log_ends(bootstrap: str, topic: str, partitions: Iterable[int], *, committed_only: bool = False) -> dict[int, int]:
    """The offset behind the last record of each partition; or that of the first record whose transaction is open."""
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    return _listed(bootstrap, topic, partitions, _LATEST, level)


def wait_settled(bootstrap: str, topic: str, partitions: Iterable[int] | None = None) -> None:
    """Waits until readers of committed records see all transactions of the topic that were ended before this call."""
    numbers = partitions_of(bootstrap, topic) if partitions is None else list(partitions)
    stable = log_ends(bootstrap, topic, numbers, committed_only=True)
    if stable == log_ends(bootstrap, topic, numbers):
        return
    admin = TxnAdmin(bootstrap, {}, patience_s=PATIENCE_SECONDS)

    def settled() -> bool:
        ending = admin.describe(list(admin.listed("", _ENDING)))
        return not any(
            isinstance(each, Described) and each.state in _ENDING and topic in each.partitions
            for each in ending.values()
        )

    try:
        wait_until(settled, f"the markers of ended transactions in {topic}")
    finally:
        admin.close()


def _listed(
    bootstrap: str, topic: str, partitions: Iterable[int], spec: OffsetSpec, level: IsolationLevel
) -> dict[int, int]:
    """Asks until every partition has a leader that answers."""
    asked = {TopicPartition(topic, number): spec for number in partitions}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        # a client remembers for seconds that a partition had no leader: ask with a new one each time
        admin = _admin(bootstrap)
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=_ANSWER_SECONDS)
        try:
            return {place.partition: int(answer.result(_ANSWER_SECONDS).offset) for place, answer in answers.items()}
        except (KafkaException, TimeoutError) as error:
            # a client may forget what it has asked a broker that goes away meanwhile, and never answer
            if time.monotonic() > deadline:
                raise AssertionError(f"topic {topic}: no offsets of its partitions") from error
            time.sleep(_PAUSE_SECONDS)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500})
