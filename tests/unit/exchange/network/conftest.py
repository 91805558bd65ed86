"""Both kinds of sockets, and what has to be gone after a test."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from support.processes.running import wait_until


@pytest.fixture
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread more than before, and no open socket of those that the test has made."""
    made = WeakSet[socket.socket]()
    usual = socket.socket.__init__

    def noted(self: socket.socket, *arguments: Any, **named: Any) -> None:
        usual(self, *arguments, **named)
        made.add(self)

    monkeypatch.setattr(socket.socket, "__init__", noted)
    threads = set(threading.enumerate())
    yield
    wait_until(lambda: set(threading.enumerate()) <= threads, "a thread was left")
    assert not [each for each in made if each.fileno() >= 0]


@pytest.fixture(params=["unix", "tcp"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """Where the Unix socket is; None: TCP."""
    if request.param == "tcp":
        yield None
        return
    # not in `tmp_path`, which is too long a path for a socket where temporary files are kept elsewhere than usual
    with tempfile.TemporaryDirectory() as short:
        yield Path(short)
