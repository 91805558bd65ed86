"""Both ends of the exchange in this process: a reader with one mailbox, and connections to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from headrace.core.errors import HeadraceError
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from support.processes.running import WAIT_SECONDS

HERE, THERE = Identity("job", 1, "token", 0), Identity("job", 1, "token", 1)
CALM = LinkTimes(ping_ms=40, lost_ms=240_000, linger_ms=60_000)
"""For tests in which nothing is lost, however busy the machine is."""
WAIT_MS = round(WAIT_SECONDS * 1_000)
BATCH_ROWS = 1_000


def batch(n: int, rows: int = BATCH_ROWS) -> pl.DataFrame:
    return pl.DataFrame({"a": range(n * rows, (n + 1) * rows), "text": [f"row {n}"] * rows})


class Reader:
    """An incoming slot with one mailbox of task `t`, and what it was told of losses."""

    def __init__(self, folder: Path | None, *, rows_max: int = 100_000, channels: int = 1, times: LinkTimes = CALM):
        self.mailbox = Mailbox((0,) * channels, ChannelBounds(rows_max=rows_max), merge_rows_max=10_000)
        self.lost: list[HeadraceError] = []
        self.times = times
        self.listener = Listener("127.0.0.1", folder, times=times)
        self.address = self.listener.address
        assert bool(self.address.unix_path) == (folder is not None)

    def serve(self) -> None:
        self.listener.serve(THERE, {"t": self.mailbox}, self.lost.append)

    def connect(
        self, identity: Identity = HERE, peer_slot: int = 1, lost: list[HeadraceError] | None = None
    ) -> Connection:
        told = self.lost if lost is None else lost
        return Connection(self.address, identity, peer_slot, WAIT_MS, told.append, times=self.times)


@contextmanager
def reading(
    folder: Path | None, *, rows_max: int = 100_000, channels: int = 1, times: LinkTimes = CALM
) -> Iterator[Reader]:
    """A reader that serves, and is closed afterwards."""
    reader = Reader(folder, rows_max=rows_max, channels=channels, times=times)
    try:
        reader.serve()
        yield reader
    finally:
        reader.listener.close()
        path = reader.address.unix_path
        assert not path or not Path(path).exists()


@contextmanager
def connected(reader: Reader, lost: list[HeadraceError] | None = None) -> Iterator[Connection]:
    """A connection that is closed afterwards."""
    connection = reader.connect(lost=lost)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def in_thread(work: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Runs beside; gives what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
