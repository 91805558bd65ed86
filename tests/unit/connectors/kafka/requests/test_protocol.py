"""Which transaction protocol a committable was written with, and which EndTxn ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.connect.sink import Committable, SinkContext
from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.librdkafka.tested_versions import TESTED_BELOW, version_of, version_text
from headrace_connectors.kafka.requests.protocol import (
    TransactionProtocol,
    producer_text,
    protocol_of,
    protocol_of_library,
    recorded,
)
from headrace_connectors.kafka.requests.requests import END_VERSIONS
from headrace_connectors.kafka.transactions.committer import KafkaCommitter

IDENTITY = {"producer_id": 7, "producer_epoch": 0, "started_at_ms": 1}


@pytest.mark.parametrize(("number", "text"), [(0x021000FF, "2.16.0"), (0x020B01FF, "2.11.1"), (0x010901FF, "1.9.1")])
def test_versions_are_read_as_librdkafka_packs_them(number: int, text: str) -> None:
    assert version_text(version_of(number)) == text


def test_a_committable_names_the_producer_and_its_protocol() -> None:
    payload = recorded(protocol_of_library((2, 16, 0)), (2, 16, 0))
    assert payload == {"protocol": "TV1", "producer": {"library": "librdkafka", "version": "2.16.0"}}
    assert protocol_of(payload) is TransactionProtocol.TV1
    assert producer_text(payload) == "librdkafka 2.16.0"


@pytest.mark.parametrize("payload", [{}, {"topic": "t"}, IDENTITY | {"protocol": "TV1"}])
def test_what_earlier_versions_stored_was_written_with_tv1(payload: dict[str, Any]) -> None:
    assert protocol_of(payload) is TransactionProtocol.TV1


def test_a_library_later_than_the_tested_ones_is_refused() -> None:
    with pytest.raises(UserError, match=r"not tested with librdkafka 2\.17\.0") as caught:
        protocol_of_library(TESTED_BELOW)
    assert "pip install 'confluent-kafka>=2.11,<2.17'" in str(caught.value.remedy)


def test_every_protocol_has_its_versions_of_endtxn() -> None:
    assert set(END_VERSIONS) == set(TransactionProtocol)
    # from version 5 on EndTxn raises the epoch: that is TV2
    assert END_VERSIONS[TransactionProtocol.TV1] == (1, 4)


@pytest.mark.parametrize("call", ["describe", "commit"])
def test_an_unknown_protocol_is_refused_before_any_request(call: str) -> None:
    known = Committable("out", 0, 6, IDENTITY | {"protocol": "TV1"}, "headrace-j-out-1-0-0", 1)
    newer = {"protocol": "TV3", "producer": {"library": "librdkafka", "version": "3.1.0"}}
    unknown = replace(known, name="headrace-j-out-1-0-1", payload=IDENTITY | newer)
    # nobody is at this address: a request would end in another error
    config = KafkaSinkConfig.model_validate({"brokers": "127.0.0.1:1", "topic": "t"})
    context = SinkContext("j", "out", 0, 1, schema_of({"k": "string"}), attempt=1)
    committer = KafkaCommitter(config, context, patience_s=0)
    with pytest.raises(UserError) as caught:
        getattr(committer, call)([known, unknown])
    assert caught.value.message == (
        "transaction headrace-j-out-1-0-1 of epoch 6 was written by librdkafka 3.1.0 with transaction protocol TV3, "
        "and this version of headrace ends TV1 only"
    )
    assert "the version of headrace that wrote it, or a later one" in str(caught.value.remedy)
    committer.close()
