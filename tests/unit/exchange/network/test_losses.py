"""A peer of the exchange that dies, freezes or is cut off is a loss, told once, on real sockets of both kinds."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.signals import Watermark
from headrace.exchange.network.dialling import Address
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from support.processes.running import wait_until
from unit.exchange.network.exchange_ends import CALM, HERE, WAIT_MS, batch, in_thread, reading

pytestmark = [pytest.mark.turns(2), pytest.mark.usefixtures("nothing_is_left")]

SOON_MS = 100


def hurry(times: LinkTimes) -> None:
    """Silence is a loss soon, from now on. Before, no machine that stands still may make one: links ask their times
    whenever nothing comes."""
    object.__setattr__(times, "lost_ms", SOON_MS)


@contextmanager
def peer(role: Literal["listen", "send"], **told: Any) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A peer in a process of its own, and its first words; killed afterwards."""
    told["times"] = asdict(CALM)
    script = Path(__file__).with_name("exchange_peer.py")
    process = subprocess.Popen(
        [sys.executable, str(script), role, json.dumps(told)],
        env=os.environ | {"POLARS_MAX_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("take", [True, False], ids=["busy", "stuck"])
def test_a_reader_that_dies_or_freezes_is_a_loss(folder: Path | None, how: signal.Signals, take: bool) -> None:
    lost: list[HeadraceError] = []
    times = replace(CALM)
    where = str(folder) if folder else None
    with peer("listen", folder=where, rows_max=5_000, take=take) as (process, address):
        connection = Connection(Address(*address), HERE, 1, WAIT_MS, lost.append, times=times)
        outlet = connection.outlet("t", 0)
        sent = 0

        def send() -> None:
            nonlocal sent
            while True:
                outlet.put(batch(0))
                sent += 1

        with in_thread(send) as raised:
            wait_until(lambda: sent >= 2, "nothing went out")
            process.send_signal(how)
            hurry(times)
        connection.close()
    assert isinstance(raised[0], ExternalError)
    assert raised[0].retry
    assert "slot 1 at" in str(raised[0])
    assert lost == [raised[0]]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sender_that_dies_or_freezes_is_a_loss(folder: Path | None, how: signal.Signals) -> None:
    times = replace(CALM)
    with reading(folder, times=times) as reader, peer("send", address=reader.address, rows=1_000) as (process, _):
        reader.mailbox.take()
        process.send_signal(how)
        hurry(times)
        wait_until(lambda: bool(reader.lost), "nobody noticed")
    (loss,) = reader.lost
    assert isinstance(loss, ExternalError)
    assert "slot 0" in str(loss)


def test_a_network_that_is_cut_is_a_loss() -> None:
    """Nothing comes through in either direction, and no end of the stream is seen: a pipe between that stops."""
    lost: list[HeadraceError] = []
    times = replace(CALM)
    with reading(None, times=times) as reader, cut_off(reader.address) as (address, cut):
        connection = Connection(address, HERE, 1, WAIT_MS, lost.append, times=times)
        connection.outlet("t", 0).put(Watermark(1))
        assert reader.mailbox.take() == [Watermark(1)]
        cut.set()
        hurry(times)
        wait_until(lambda: bool(lost and reader.lost), "nobody noticed")
        connection.close()
    assert all("nothing was heard" in str(each) for each in (*lost, *reader.lost))
    assert (len(lost), len(reader.lost)) == (1, 1)


@contextmanager
def cut_off(address: Address) -> Iterator[tuple[Address, threading.Event]]:
    """A relay to `address` that passes nothing on once the event is set, but keeps both connections open."""
    cut = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends: list[socket.socket] = []

        def relay() -> None:
            caller, _ = server.accept()
            reader = socket.create_connection(address[:2])
            ends.extend((caller, reader))
            back = threading.Thread(target=pump, args=(reader, caller))
            back.start()
            pump(caller, reader)
            back.join()

        def pump(source: socket.socket, sink: socket.socket) -> None:
            source.settimeout(0.02)
            while not cut.is_set():
                try:
                    sink.sendall(source.recv(10_000))
                except TimeoutError:
                    continue

        with in_thread(relay):
            try:
                yield Address("127.0.0.1", server.getsockname()[1]), cut
            finally:
                cut.set()
        for end in ends:
            end.close()
