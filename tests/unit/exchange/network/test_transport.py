"""Rows between slots over real sockets of both kinds: order, credit, refusal, goodbye, and nothing left over."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError
from headrace.core.signals import Barrier, Element, EndOfInput, Watermark
from headrace.exchange.mailbox import Mailbox, TaskCancelledError
from headrace.exchange.network import incoming
from headrace.exchange.network.dialling import Address
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.outgoing import Connection
from support.processes.running import wait_until
from support.reserved_port import reserved_port
from unit.exchange.network.exchange_ends import (
    BATCH_ROWS,
    HERE,
    WAIT_MS,
    Reader,
    batch,
    connected,
    in_thread,
    reading,
)

pytestmark = [pytest.mark.turns(2), pytest.mark.usefixtures("nothing_is_left")]


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
