"""One Kafka broker for a whole run, started when the first test needs it.

The broker is a child of the controller and on its leash: a test process that ends or crashes leaves it alone, and it
ends with the controller however that ends. Test processes ask for its address over a Unix socket.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from support.kafka.broker import broker_config
from support.patience import BROKER_SESSION
from support.suite import BROKER_LOG, is_controller
from support.suite.answering_socket import Answer, asked
from support.suite.shared_server import SharedServer

_HEAP_MB = 1024
_ADDRESS = "broker_socket"


class SharedBroker(SharedServer):
    """The broker in the controller."""

    def __init__(self, stash: pytest.Stash) -> None:
        super().__init__()
        self._stash = stash
        self._broker: EmbeddedBroker | None = None

    def place(self) -> tuple[Path, int]:
        """Data folder and port. Starts the broker at the first call."""
        with self._lock:
            if self._broker is None:
                config = broker_config(self.folder / "kafka", settings=BROKER_SESSION)
                broker = EmbeddedBroker(replace(config, heap_mb=_HEAP_MB))
                broker.start()
                self._undo.callback(broker.kill)
                self._broker = broker
                self._stash[BROKER_LOG] = broker.log
            return self._broker.data, self._broker.port

    def document(self) -> Answer:
        """Its place."""
        data, port = self.place()
        return {"data": str(data), "port": port}


_SHARED = pytest.StashKey[SharedBroker]()


def pytest_configure(config: pytest.Config) -> None:
    if is_controller(config):
        config.stash[_SHARED] = SharedBroker(config.stash)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tells a test process of pytest-xdist, before it starts, where to ask."""
    node.workerinput[_ADDRESS] = node.config.stash[_SHARED].listen()  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SHARED in config.stash:
        config.stash[_SHARED].end()


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> EmbeddedBroker:
    """The run's broker, which all test processes share: tests use topics, groups and jobs with names of their own.

    Only its address, its data folder and its log can be had from it. A test that stops, kills or freezes a broker
    starts its own.
    """
    if is_controller(pytestconfig):
        data, port = pytestconfig.stash[_SHARED].place()
    else:
        answer = asked(pytestconfig.workerinput[_ADDRESS])  # type: ignore[attr-defined]
        data, port = Path(str(answer["data"])), int(str(answer["port"]))
    found = EmbeddedBroker(BrokerConfig(data, port=port))
    pytestconfig.stash[BROKER_LOG] = found.log
    return found
