"""A topic that was made anew is not read at the positions of the old one, however many records it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.restored import restored
from headrace.connect.source import Reader, SourceContext, Split, SplitId
from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import Received, read_to_end
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, delete_topic, produce, running_broker, unique_topic
from support.processes.running import WAIT_SECONDS

pytestmark = [pytest.mark.broker]

CONTEXT = SourceContext("p", "n", schema_of({"v": "string"}), "raw")


def config_of(broker: EmbeddedBroker, topic: str, **fields: Any) -> KafkaSourceConfig:
    return KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topic": topic, **fields})


def made(broker: EmbeddedBroker, topic: str, values: range) -> str:
    create_topic(broker, topic, 1)
    if values:
        produce(broker, topic, [str(value) for value in values])
    return topic


def splits_of(config: KafkaSourceConfig) -> list[Split]:
    return list(config.open_enumerator(CONTEXT).discover())


def go_on(
    config: KafkaSourceConfig, known: Sequence[Split], *, foreign: bool, accepted: Sequence[str] = ()
) -> list[Split]:
    enumerator = restored(config.open_enumerator(CONTEXT), "n", known, foreign=foreign, accepted=accepted)
    return list(enumerator.discover())


def rows_of(reader: Reader, splits: Sequence[Split]) -> list[int]:
    reader.assign(splits)
    try:
        return sorted(int(value) for rows in read_to_end(reader, splits).rows.values() for value in rows)
    finally:
        reader.close()


@pytest.mark.parametrize("count", [150, 100, 40])
@pytest.mark.parametrize("foreign", [False, True])
def test_a_topic_made_anew_is_refused_and_accepted_by_its_name(
    broker: EmbeddedBroker, count: int, *, foreign: bool
) -> None:
    topic = made(broker, unique_topic("anew"), range(100))
    config = config_of(broker, topic)
    (known,) = splits_of(config)
    position = known.starting_at(100)
    # the same topic: it goes on
    assert go_on(config, [position], foreign=foreign)[0].identity == known.identity != ""
    delete_topic(broker, topic)
    made(broker, topic, range(1000, 1000 + count))
    with pytest.raises(UserError, match="made anew") as raised:
        go_on(config, [position], foreign=foreign)
    assert f"--accept-new-topic {topic}" in str(raised.value.remedy)
    # restart without another look by the enumerator: the reader itself refuses, before its first row
    reader = config.open_reader(CONTEXT)
    reader.assign([position])
    received = Received()
    with pytest.raises(UserError, match="made anew"):
        poll_for_ever(reader, received)
    reader.close()
    assert not any(received.rows.values())
    (begun,) = go_on(config_of(broker, topic, stop="latest"), [position], foreign=foreign, accepted=[topic])
    assert begun.start == 0
    assert begun.identity not in ("", known.identity)
    assert rows_of(config.open_reader(CONTEXT), [begun]) == list(range(1000, 1000 + count))


def poll_for_ever(reader: Reader, received: Received) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        received.take(reader.poll(20))


def test_a_topic_made_anew_under_a_reader_is_told(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.kafka.source.topic_watch.INTERVAL_S", 0.1)
    topic = made(broker, unique_topic("anew"), range(3))
    config = config_of(broker, topic)
    reader = config.open_reader(CONTEXT)
    reader.assign(splits_of(config))
    received = Received()
    deadline = time.monotonic() + WAIT_SECONDS
    while sum(map(len, received.rows.values())) < 3:
        assert time.monotonic() < deadline
        received.take(reader.poll(20))
    delete_topic(broker, topic)
    made(broker, topic, range(10, 20))
    with pytest.raises(UserError, match="made anew"):
        poll_for_ever(reader, received)
    reader.close()


def test_state_without_identities_is_accepted_once_and_gets_them(broker: EmbeddedBroker) -> None:
    topic = made(broker, unique_topic("old"), range(3))
    config = config_of(broker, topic)
    (split,) = splits_of(config)
    old = replace(split, identity="").starting_at(2)
    for foreign in (False, True):
        assert go_on(config, [old], foreign=foreign) == [replace(old, identity=split.identity)]


def test_a_bounded_source_that_goes_on_is_checked_too(broker: EmbeddedBroker) -> None:
    topic = made(broker, unique_topic("bounded"), range(3))
    config = config_of(broker, topic, stop="latest")
    known = splits_of(config)
    delete_topic(broker, topic)
    made(broker, topic, range(3))
    with pytest.raises(UserError, match="made anew"):
        go_on(config, known, foreign=False)


@pytest.mark.full
def test_another_cluster_behind_the_address_is_told(tmp_path: Path) -> None:
    found: dict[str, Split] = {}
    for name in ("one", "two"):
        with running_broker(tmp_path / name) as broker:
            made(broker, "t", range(5))
            found[name] = replace(splits_of(config_of(broker, "t"))[0], id=SplitId("t", 0))
            if name == "two":
                with pytest.raises(UserError, match=r"is cluster .* now, and was"):
                    go_on(config_of(broker, "t"), [found["one"].starting_at(2)], foreign=False)
    assert len({split.identity.partition("/")[0] for split in found.values()}) == 2
