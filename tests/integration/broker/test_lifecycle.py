"""A broker of one's own: killed, started again, refused a port, ended with its starter."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from support.kafka.broker import broker_config, consume_all, create_topic, produce, unique_topic

pytestmark = pytest.mark.broker


@pytest.mark.full
def test_after_a_crash_it_comes_back_on_the_same_port_with_its_data(tmp_path: Path) -> None:
    with EmbeddedBroker(broker_config(tmp_path)) as broker:
        before = broker.bootstrap
        create_topic(broker, "kept")
        produce(broker, "kept", [b"1", b"2"])
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert broker.bootstrap == before
        assert [record.value for record in consume_all(broker, "kept")] == [b"1", b"2"]
    assert not broker.is_running


def test_a_taken_port_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} on 127.0.0.1 is taken"):
            EmbeddedBroker(BrokerConfig(tmp_path, port=port)).start()
    assert list(tmp_path.iterdir()) == []


def test_two_brokers_do_not_share_a_data_folder(broker: EmbeddedBroker) -> None:
    with pytest.raises(UserError, match="another broker uses the data folder"):
        EmbeddedBroker(BrokerConfig(broker.data, log=broker.data / "second.log")).start()
    # the first one goes on
    create_topic(broker, unique_topic())


def test_a_broker_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    identity = tmp_path / "logs" / "meta.properties"
    identity.parent.mkdir()
    identity.write_text("version=1\nnode.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    broker = EmbeddedBroker(broker_config(tmp_path))
    with pytest.raises(ExternalError) as caught:
        broker.start()
    assert "the Kafka broker did not start" in caught.value.message
    assert "doesn't match previous node id" in caught.value.message
    assert str(broker.log) in str(caught.value)
    assert not broker.is_running
