"""Transactions as the broker has them, by raw requests: what tests of a writer look at and end themselves.

The committer of the Kafka sink is not used: what a writer leaves must do for anybody who knows the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import kafka.errors
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import EndTxnRequest

from support.kafka.broker import Broker, unique_topic
from support.patience import WAIT_SECONDS

CONCURRENT_TRANSACTIONS = 51
_PATIENCE_MS = round(WAIT_SECONDS * 1_000)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the broker says of a name: `state` is Empty, Ongoing, CompleteCommit, CompleteAbort, .."""

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int


class RawTransactions:
    """Looks at and ends transactions of one broker."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def describe(self, name: str) -> Transaction | None:
        """None for a name that was never used."""
        try:
            found = self._client.describe_transactions([name])[name]
        except kafka.errors.TransactionalIdNotFoundError:
            return None
        state = str(getattr(found.state, "value", found.state))
        return Transaction(name, state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms)

    def state(self, name: str) -> str:
        """The state alone; empty for a name that was never used."""
        found = self.describe(name)
        return "" if found is None else found.state

    def commit(self, name: str) -> None:
        """Commits what is open under the name."""
        found = self.describe(name)
        assert found is not None, f"nobody has used {name}"
        while (code := self._client._manager.run(self._end, found)) == CONCURRENT_TRANSACTIONS:
            pass
        assert code == 0, f"the broker refused to commit {name}: error {code}"

    async def _end(self, transaction: Transaction) -> int:
        name = transaction.name
        at = await self._client._find_coordinator_ids([name], key_type=CoordinatorType.TRANSACTION)
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=True,
            min_version=1,
            max_version=4,
        )
        answer = await self._client._manager.send(request, node_id=at[name])
        return int(answer.error_code)


def transactional(broker: Broker) -> Producer:
    """A producer for transactions under a name of its own. They do not expire on a machine that stands still."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": unique_topic("txn"),
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(_PATIENCE_MS / 1000)
    return producer


@contextmanager
def raw_transactions(broker: Broker) -> Iterator[RawTransactions]:
    """A client for raw requests."""
    client = KafkaAdminClient(
        bootstrap_servers=broker.bootstrap, bootstrap_timeout_ms=_PATIENCE_MS, request_timeout_ms=_PATIENCE_MS
    )
    try:
        yield RawTransactions(client)
    finally:
        client.close()
