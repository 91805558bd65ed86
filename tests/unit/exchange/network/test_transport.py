"""Rows between slots over real sockets of both kinds: order, credit, refusal, loss, goodbye, and nothing left over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import polars as pl
import pytest

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError
from headrace.core.signals import Barrier, Element, EndOfInput, Watermark
from headrace.exchange.mailbox import ChannelBounds, Mailbox, TaskCancelledError
from headrace.exchange.network import incoming
from headrace.exchange.network.dialling import Address
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from support.processes.running import WAIT_SECONDS, wait_until
from support.reserved_port import reserved_port

pytestmark = pytest.mark.turns(2)

HERE, THERE = Identity("job", 1, "token", 0), Identity("job", 1, "token", 1)
CALM = LinkTimes(ping_ms=40, lost_ms=240_000, linger_ms=60_000)
"""For tests in which nothing is lost, however busy the machine is."""
SOON_MS = 100
WAIT_MS = round(WAIT_SECONDS * 1_000)
BATCH_ROWS = 1_000


@pytest.fixture(autouse=True)
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


def hurry(times: LinkTimes) -> None:
    """Silence is a loss soon, from now on. Before, no machine that stands still may make one: links ask their times
    whenever nothing comes."""
    object.__setattr__(times, "lost_ms", SOON_MS)


@pytest.fixture(params=["unix", "tcp"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """Where the Unix socket is; None: TCP."""
    if request.param == "tcp":
        yield None
        return
    # not in `tmp_path`, which is too long a path for a socket where temporary files are kept elsewhere than usual
    with tempfile.TemporaryDirectory() as short:
        yield Path(short)


def batch(n: int, rows: int = BATCH_ROWS) -> pl.DataFrame:
    return pl.DataFrame({"a": range(n * rows, (n + 1) * rows), "text": [f"row {n}"] * rows})


class Reader:
    """A incoming slot with one mailbox of task `t`, and what it was told of losses."""

    def __init__(self, folder: Path | None, *, rows_max: int = 100_000, channels: int = 1, times: LinkTimes = CALM):
        self.mailbox = Mailbox(channels, ChannelBounds(rows_max=rows_max), merge_rows_max=10_000)
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


def taken_until_end(mailbox: Mailbox) -> tuple[list[int], list[Element]]:
    """Values of all rows in order, and signals, each with the number of rows before it."""
    values: list[int] = []
    signals: list[Element] = []
    while not (signals and isinstance(signals[-1], EndOfInput)):
        for element in mailbox.take():
            if isinstance(element, pl.DataFrame):
                values += element["a"].to_list()
            else:
                signals.append(element)
    return values, signals


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


# ---- rows and signals ------------------------------------------------------------------------------------------------


def test_rows_and_signals_arrive_in_order(folder: Path | None) -> None:
    batches = 60
    with reading(folder, rows_max=3_000) as reader, connected(reader) as connection:
        outlet = connection.outlet("t", 0)

        def send() -> None:
            for n in range(batches):
                outlet.put(batch(n))
                outlet.put(Watermark(n))
            outlet.put(Barrier(1))
            outlet.put(EndOfInput())

        with in_thread(send) as raised:
            values, signals = taken_until_end(reader.mailbox)
        assert not raised
        assert values == list(range(batches * BATCH_ROWS))
        assert signals[-2:] == [Barrier(1), EndOfInput()]
        assert signals[-3] == Watermark(batches - 1)
        assert not reader.lost


def test_many_channels_share_a_connection(folder: Path | None) -> None:
    channels = 5
    with reading(folder, channels=channels) as reader, connected(reader) as connection:
        outlets = [connection.outlet("t", channel) for channel in range(channels)]
        for n, outlet in enumerate(outlets):
            outlet.put(batch(n, rows=10))
            outlet.put(EndOfInput())
        values, _ = taken_until_end(reader.mailbox)
        assert sorted(values) == list(range(channels * 10))


def test_a_stuck_reader_holds_the_sender_at_the_bound(folder: Path | None) -> None:
    bound, batches = 800, 50
    with reading(folder, rows_max=bound) as reader, connected(reader) as connection:
        outlet = connection.outlet("t", 0)

        def send() -> None:
            for n in range(batches):
                outlet.put(batch(n))
            outlet.put(EndOfInput())

        with in_thread(send) as raised:
            wait_until(lambda: reader.mailbox.rows_queued == bound, "the bound is never reached")
            waited_ms = outlet.waited_ms
            wait_until(lambda: outlet.waited_ms > waited_ms + 100, "the sender never waited")
            assert reader.mailbox.rows_queued == bound
            assert connection.waited_ms > 0
            values, _ = taken_until_end(reader.mailbox)
        assert not raised
        assert values == list(range(batches * BATCH_ROWS))
        assert reader.mailbox.rows_queued_max <= bound + BATCH_ROWS


def test_a_batch_larger_than_the_bound_goes_in_pieces(folder: Path | None) -> None:
    with reading(folder, rows_max=500) as reader, connected(reader) as connection:
        outlet = connection.outlet("t", 0)

        def send() -> None:
            outlet.put(batch(0, rows=5_200))
            outlet.put(EndOfInput())

        with in_thread(send):
            values, _ = taken_until_end(reader.mailbox)
        assert values == list(range(5_200))
        assert reader.mailbox.rows_queued_max <= 1_000


def test_signals_need_no_credit(folder: Path | None) -> None:
    with reading(folder, rows_max=1, channels=2) as reader, connected(reader) as connection:
        full, other = connection.outlet("t", 0), connection.outlet("t", 1)
        full.put(batch(0, rows=1))
        full.put(Barrier(1))
        other.put(Barrier(1))
        wait_until(lambda: reader.mailbox.rows_queued == 1, "the row never came")
        assert isinstance(reader.mailbox.take()[0], pl.DataFrame)
        assert reader.mailbox.take() == [Barrier(1)]


def test_a_mailbox_that_is_torn_down_lets_go_of_what_still_comes(folder: Path | None) -> None:
    with reading(folder) as reader, connected(reader) as connection:
        outlet = connection.outlet("t", 0)
        reader.mailbox.cancel()
        for n in range(20):
            outlet.put(batch(n, rows=10))
    assert not reader.lost


# ---- being let in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "peer_slot", "reason"),
    [
        (Identity("job", 1, "another", 0), 1, "token"),
        (Identity("job", 2, "token", 0), 1, "attempt 1 of the job runs here, not attempt 2"),
        (Identity("other", 1, "token", 0), 1, "another job"),
        (HERE, 2, "this is slot 1"),
    ],
)
def test_who_is_of_another_attempt_is_refused(
    folder: Path | None, identity: Identity, peer_slot: int, reason: str
) -> None:
    with reading(folder) as reader:
        with pytest.raises(ExternalError, match=reason) as caught:
            reader.connect(identity, peer_slot)
        assert caught.value.retry
        with connected(reader) as connection:
            connection.outlet("t", 0).put(Watermark(1))
            assert reader.mailbox.take() == [Watermark(1)]
    assert not reader.lost


def test_a_caller_waits_until_the_attempt_is_known(folder: Path | None) -> None:
    reader = Reader(folder)
    try:

        def send() -> None:
            with connected(reader) as connection:
                connection.outlet("t", 0).put(Watermark(1))

        with in_thread(send) as raised:
            reader.serve()
            assert reader.mailbox.take() == [Watermark(1)]
        assert not raised
    finally:
        reader.listener.close()


def test_a_caller_that_waits_is_sent_away_when_the_listener_closes(folder: Path | None) -> None:
    reader = Reader(folder)
    with in_thread(lambda: connected(reader).__enter__().close()) as raised:
        wait_until(lambda: any(each.name == "exchange-from" for each in threading.enumerate()), "nobody called")
        reader.listener.close()
    assert isinstance(raised[0], ExternalError)


def test_no_attempt_in_time_is_a_refusal(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "DEPLOY_WAIT_S", 0.0)
    listener = Listener("127.0.0.1", folder)
    try:
        with pytest.raises(ExternalError, match=r"no attempt was deployed there yet|did not answer in time"):
            Connection(listener.address, HERE, 1, 100, lambda loss: None)
    finally:
        listener.close()
    listener.close()


def test_a_caller_that_lost_its_patience_is_no_loss(folder: Path | None) -> None:
    reader = Reader(folder)
    try:
        with pytest.raises(ExternalError, match="did not answer in time"):
            Connection(reader.address, HERE, 1, 100, reader.lost.append)
        reader.serve()
        with connected(reader) as connection:
            connection.outlet("t", 0).put(Watermark(1))
            assert reader.mailbox.take() == [Watermark(1)]
    finally:
        reader.listener.close()
    assert not reader.lost


def test_nobody_there_is_unreachable() -> None:
    with reserved_port() as port, pytest.raises(UnreachableError, match="slot 1 at 127"):
        Connection(Address("127.0.0.1", port), HERE, 1, WAIT_MS, lambda loss: None)


def test_an_unknown_task_is_a_loss_on_both_sides(folder: Path | None) -> None:
    lost: list[HeadraceError] = []
    with reading(folder) as reader, connected(reader, lost) as connection:
        connection.outlet("nobody", 0)
        wait_until(lambda: bool(lost and reader.lost), "it was taken")
        with pytest.raises(ExternalError, match="slot 1 at"):
            connection.outlet("t", 0).put(Watermark(1))
    assert "nobody" in str(reader.lost[0])
    assert (len(lost), len(reader.lost)) == (1, 1)


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_a_goodbye_of_the_sender_is_no_loss(folder: Path | None) -> None:
    lost: list[HeadraceError] = []
    with reading(folder) as reader:
        with connected(reader, lost) as connection:
            outlet = connection.outlet("t", 0)
            outlet.put(batch(0))
            connection.close()
            with pytest.raises(TaskCancelledError):
                outlet.put(Watermark(1))
        assert isinstance(reader.mailbox.take()[0], pl.DataFrame)
    assert not lost
    assert not reader.lost


def test_a_goodbye_of_the_reader_is_no_loss_and_ends_senders(folder: Path | None) -> None:
    lost: list[HeadraceError] = []
    with reading(folder, rows_max=1) as reader, connected(reader, lost) as connection:
        outlet = connection.outlet("t", 0)
        outlet.put(batch(0, rows=1))
        waited_ms = outlet.waited_ms
        with in_thread(lambda: outlet.put(batch(1, rows=1))) as raised:
            wait_until(lambda: outlet.waited_ms > waited_ms, "the sender never waited")
            reader.listener.close()
        assert isinstance(raised[0], TaskCancelledError)
    assert not lost
    assert not reader.lost


def test_cancel_wakes_senders(folder: Path | None) -> None:
    with reading(folder, rows_max=1) as reader, connected(reader) as connection:
        outlet = connection.outlet("t", 0)
        outlet.put(batch(0, rows=1))
        waited_ms = outlet.waited_ms
        with in_thread(lambda: outlet.put(batch(1, rows=1))) as raised:
            wait_until(lambda: outlet.waited_ms > waited_ms, "the sender never waited")
            connection.cancel()
        assert isinstance(raised[0], TaskCancelledError)
        with pytest.raises(TaskCancelledError):
            outlet.put(Watermark(1))
    assert not reader.lost


# ---- a peer in another process ---------------------------------------------------------------------------------------


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
