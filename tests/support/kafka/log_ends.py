"""Where the logs of a topic begin and end, and whether all transactions that were ended stand in them.

A commit and an abort are answered before their markers are written, by a thread of the broker's own: until then readers
of committed records are held back before the transaction.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace_connectors.kafka.transactions.rules import Described
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin
from support.processes.running import WAIT_SECONDS, wait_until

PATIENCE_SECONDS: Final = WAIT_SECONDS
"""How long a broker may take for one answer: as long as anything else that tests wait for."""
_ANSWER_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TopicLogs:
    """The logs of a topic that is there, of all its partitions or of these. Every answer is as of the call."""

    def __init__(self, bootstrap: str, topic: str, partitions: Iterable[int] | None = None) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._admin = admin_client(bootstrap)
        self.partitions = self._with_leaders(partitions)

    def _with_leaders(self, partitions: Iterable[int] | None) -> list[int]:
        """These partitions, or all, once each has a leader.

        A client that is asked for offsets before it knows the leaders looks for them again only after 1 to 3 s.
        """
        wanted = None if partitions is None else set(partitions)
        led: set[int] = set()

        def are_led() -> bool:
            found = self._admin.list_topics(self._topic, timeout=PATIENCE_SECONDS).topics[self._topic]
            assert wanted is not None or found.error is None, f"topic {self._topic}: {found.error}"
            led.update(number for number, partition in found.partitions.items() if partition.leader >= 0)
            return led >= (set(found.partitions) if wanted is None else wanted)

        wait_until(are_led, f"the partitions of {self._topic} have leaders", PATIENCE_SECONDS)
        return sorted(led if wanted is None else wanted)

    def starts(self) -> dict[int, int]:
        """The first offset of each partition."""
        return self._listed(_FIRST, IsolationLevel.READ_UNCOMMITTED)

    def ends(self, *, committed_only: bool = False) -> dict[int, int]:
        """The offset behind the last record of each partition; or that of the first whose transaction is open."""
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        return self._listed(_LATEST, level)

    def wait_settled(self) -> None:
        """Waits until readers of committed records see all transactions here that were ended before this call."""
        stable = self.ends(committed_only=True)
        if stable == self.ends():
            return
        admin = TxnAdmin(self._bootstrap, {}, patience_s=PATIENCE_SECONDS)

        def settled() -> bool:
            ending = admin.describe(list(admin.listed("", _ENDING)))
            return not any(
                isinstance(each, Described) and each.state in _ENDING and self._topic in each.partitions
                for each in ending.values()
            )

        try:
            wait_until(settled, f"the markers of ended transactions in {self._topic}")
        finally:
            admin.close()

    def _listed(self, spec: OffsetSpec, level: IsolationLevel) -> dict[int, int]:
        """Asks until every partition has a leader that answers."""
        asked = {TopicPartition(self._topic, number): spec for number in self.partitions}
        deadline = time.monotonic() + PATIENCE_SECONDS
        for failures in itertools.count(1):
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_ANSWER_SECONDS)
            try:
                return {at.partition: int(answer.result(_ANSWER_SECONDS).offset) for at, answer in answers.items()}
            except (KafkaException, TimeoutError) as error:
                # a client may forget what it has asked a broker that goes away meanwhile, and never answer
                if time.monotonic() > deadline:
                    raise AssertionError(f"topic {self._topic}: no offsets of its partitions") from error
                time.sleep(_PAUSE_SECONDS)
                # it also remembers for seconds that a partition had no leader; but most often the leader of a partition
                # has not heard of it yet, and a new client would take longer than that
                if failures > 1:
                    admin_client.cache_clear()
                    self._admin = admin_client(self._bootstrap)
                self._with_leaders(self.partitions)
        raise AssertionError


def log_ends(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """As `TopicLogs.ends`, of partitions that the brokers may hear of only now."""
    return TopicLogs(bootstrap, topic, partitions).ends()


def wait_settled(bootstrap: str, topic: str) -> None:
    """As `TopicLogs.wait_settled`."""
    TopicLogs(bootstrap, topic).wait_settled()


@lru_cache(maxsize=4)
def admin_client(bootstrap: str) -> AdminClient:
    """A client that is shared: a new one takes a tenth of a second, or seconds if it is asked before it is connected.

    Few are kept, for brokers of single tests come and go.
    """
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500})
