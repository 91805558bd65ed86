"""Raw connections to a real broker: nothing of them is left open."""

from __future__ import annotations

import gc

import pytest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from headrace.local.broker import EmbeddedBroker
from headrace_connectors.kafka.raw_protocol import BrokerClient
from support.running import WAIT_SECONDS

pytestmark = pytest.mark.broker


def test_a_connection_with_something_to_say_yet_is_closed_at_once(broker: EmbeddedBroker) -> None:
    """As when another one broke, and metadata are asked for; here it is more than the system takes in one go."""
    client = BrokerClient(broker.bootstrap, {}, answer_timeout_ms=int(WAIT_SECONDS * 1_000))
    (node,) = client.brokers()
    assert client.describe({node: ["nobody"]})["nobody"].code != 0
    client._send(DescribeTransactionsRequest(transactional_ids=["x" * 10_000] * 2_000), node)
    client.close()
    del client
    # a socket that is open now is a warning, which fails this test
    gc.collect()
