"""Server and client over a real connection: who is connected, what is lost, and that nothing said twice."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from headrace import __version__
from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Leader
from headrace.rpc import server as server_module
from headrace.rpc.client import ClientHandlers, ControlClient, CoordinatorAccess
from headrace.rpc.codec import slot_command
from headrace.rpc.messages import (
    EpochAborted,
    KillSlot,
    SlotCommand,
    SlotDown,
    StopWorker,
    ToWorker,
    WorkerLeaving,
)
from headrace.rpc.sessions.outbox import MESSAGES_MAX
from headrace.rpc.sessions.sessions import WorkerConnected, WorkerDisconnected
from headrace.rpc.time_settings import ClusterTimes
from support.control.server import TOKEN, ServerInThread
from support.control.worker import Worker, connected
from support.leadership.announcing import announcing
from support.patience import CONTROL_TIMES, SHORT_CONTROL_LEASES, WAIT_SECONDS
from support.processes.running import wait_until
from support.reserved_port import reserved_port


class Proxy:
    """A TCP relay whose connections a test may cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self._open = True
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                inner.close()
                continue
            outer = socket.create_connection(("127.0.0.1", self._to))
            self._pairs += [inner, outer]
            for ends in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._relay, args=ends, daemon=True).start()

    @staticmethod
    def _relay(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)  # closing alone ends nothing while the other relay reads from it
        target.close()

    def cut(self, *, open_after: bool = True) -> None:
        self._open = open_after
        for end in self._pairs:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._pairs.clear()

    def close(self) -> None:
        self.cut(open_after=False)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def proxied(times: ClusterTimes) -> Iterator[tuple[ServerInThread, Proxy]]:
    with ServerInThread(times) as server:
        proxy = Proxy(server.port)
        try:
            yield server, proxy
        finally:
            proxy.close()


def test_words_go_both_ways_in_order() -> None:
    worker = Worker()
    downs = [SlotDown(f"s{n}", "ended", clean=True) for n in range(200)]
    commands = [slot_command("s1", EpochAborted(n)) for n in range(200)]
    with ServerInThread() as server, connected(server, worker) as client:
        assert server.events == [WorkerConnected("w1", worker.register)]
        for down, command in zip(downs, commands, strict=True):
            client.send(down)
            server.send("w1", command)
        wait_until(lambda: len(server.said()) == 200 and len(worker.told) == 200, "all is said")
        assert server.said() == downs
        assert worker.told == commands


def test_a_large_message_passes() -> None:
    worker = Worker()
    command = SlotCommand("s", b"x" * (20 << 20), deploys=True, leaves=False)
    with ServerInThread() as server, connected(server, worker):
        server.send("w1", command)
        wait_until(lambda: command in worker.told, "it comes")


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"token": "another"}, "token"), ({"token": ""}, "--token-file"), ({"version": "0.0.0"}, r"headrace 0\.0\.0")],
)
def test_a_worker_with_a_wrong_token_or_version_is_refused(change: dict[str, str], reason: str) -> None:
    worker = Worker(token=change.get("token", TOKEN))
    worker.register = replace(worker.register, version=change.get("version", __version__))
    with ServerInThread() as server, connected(server, worker):
        assert re.search(reason, str(worker.refused[0]))
        assert worker.refused[0].remedy
        assert server.events == []


def test_a_second_worker_of_the_same_name_is_refused_and_the_first_stays() -> None:
    first, second = Worker(), Worker()
    second.register = replace(second.register, pid=1)
    # so that the first was heard a moment ago, also on a host that stood still
    slow = replace(CONTROL_TIMES, heartbeat=600_000, worker_lost=3_600_000)
    with ServerInThread(slow) as server, connected(server, first), connected(server, second):
        assert "is here already" in second.refused[0].reason
        assert server.lost() == []


def test_a_stream_that_drops_and_comes_back_loses_and_repeats_nothing() -> None:
    worker = Worker()
    downs = [SlotDown(f"s{n}", "ended", clean=False) for n in range(300)]
    commands = [KillSlot(f"s{n}") for n in range(300)]
    with proxied(CONTROL_TIMES) as (server, proxy), connected(server, worker, through=proxy.address) as client:
        for n, (down, command) in enumerate(zip(downs, commands, strict=True)):
            client.send(down)
            server.send("w1", command)
            if n % 100 == 50:
                wait_until(lambda n=n: len(server.said()) > n - 50, "the stream carries")  # type: ignore[misc]
                proxy.cut()
        wait_until(lambda: len(server.said()) >= 300 and len(worker.told) >= 300, "all is said")
        assert server.said() == downs
        assert [message for message in worker.told if isinstance(message, KillSlot)] == commands
        assert worker.registered > 1
        assert len(server.connected()) == 1
        assert server.lost() == []


def wait_reconnect(times: ClusterTimes, ms: int) -> None:
    """How long a server with these times waits for a stream to come back, from now on. Until then it loses nobody,
    however long this process stands still."""
    object.__setattr__(times, "reconnect", ms)


def test_a_stream_that_stays_away_is_one_loss_and_then_a_new_worker() -> None:
    worker, times = Worker(), replace(CONTROL_TIMES)
    with proxied(times) as (server, proxy), connected(server, worker, through=proxy.address) as client:
        proxy.cut(open_after=False)
        wait_reconnect(times, 100)
        wait_until(lambda: bool(server.lost()), "it is lost")
        wait_reconnect(times, CONTROL_TIMES.reconnect)
        client.send(SlotDown("old", "of a time before the loss", clean=False))
        calls = worker.registered
        # a call that was under way may have begun before that word; the one after it has not
        wait_until(lambda: worker.registered >= calls + 2, "it calls again")
        proxy.cut(open_after=True)
        wait_until(lambda: len(server.connected()) == 2, "it joins again")
        client.send(SlotDown("new", "after it", clean=False))
        wait_until(lambda: bool(server.said()), "it speaks")
        assert [down.slot for down in server.said()] == ["new"]
        assert [type(event) for event in server.events[:3]] == [WorkerConnected, WorkerDisconnected, WorkerConnected]
        assert len(server.lost()) == 1


def test_a_worker_that_is_silent_is_lost_though_its_connection_stands() -> None:
    worker = Worker()
    silent = replace(CONTROL_TIMES, heartbeat=600_000)
    with ServerInThread(replace(CONTROL_TIMES, worker_lost=300)) as server:
        server.times = silent
        with connected(server, worker):
            wait_until(lambda: bool(server.lost()), "it is lost")
            assert "no heartbeat" in server.lost()[0].reason


def test_a_coordinator_that_does_not_answer_is_called_anew() -> None:
    """Long before gRPC, which has 20 s of patience, would do so: a network that was cut may have healed meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(WAIT_SECONDS)
        client = Worker().connect(f"127.0.0.1:{mute.getsockname()[1]}", SHORT_CONTROL_LEASES)
        calls: list[socket.socket] = []
        came_s: list[float] = []
        try:
            # this process may stand still between two calls; gRPC's own would all be so far apart
            while len(calls) < 6 and not any(later - call < 15 for call, later in pairwise(came_s)):
                calls.append(mute.accept()[0])
                came_s.append(time.monotonic())
        finally:
            client.close(0)
            for call in calls:
                call.close()
        assert len(calls) < 6


def test_a_worker_that_leaves_is_gone_at_once() -> None:
    worker = Worker()
    with ServerInThread(replace(CONTROL_TIMES, heartbeat=500)) as server, connected(server, worker) as client:
        server.send("w1", KillSlot("a"))
        wait_until(lambda: bool(worker.told), "it knows that it has joined")
        client.send(WorkerLeaving())
        client.close(WAIT_SECONDS)
        wait_until(lambda: bool(server.lost()), "it is gone")
        assert server.said() == [WorkerLeaving()]
        assert server.lost() == [WorkerDisconnected("w1", "it has left", clean=True)]


def test_a_worker_comes_to_a_new_server_at_the_same_port() -> None:
    worker = Worker()
    with reserved_port() as port, ServerInThread(port=port) as server, connected(server, worker) as client:
        server.stop()
        wait_until(lambda: client.silent_s() > 0.3, "nobody is heard")
        with ServerInThread(port=port) as again:
            wait_until(lambda: bool(again.connected()), "it joins")
            wait_until(lambda: client.silent_s() < 0.3, "it hears")
            assert server.lost() == []


def test_what_was_sent_before_a_stop_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STOP_GRACE_SECONDS", WAIT_SECONDS)  # a worker may stand still just then
    worker = Worker()
    with ServerInThread() as server, connected(server, worker):
        server.send("w1", StopWorker())
        server.stop()
        wait_until(lambda: StopWorker() in worker.told, "it comes")


def test_one_port_has_one_server() -> None:
    with ServerInThread() as server, pytest.raises(ExternalError, match="cannot listen"):
        server.call(
            type(server.server)("other", CONTROL_TIMES, server.events.append).start("127.0.0.1", server.port, TOKEN)
        )


def test_other_hosts_need_a_token() -> None:
    with ServerInThread() as server, pytest.raises(UserError, match="needs a token"):
        server.call(type(server.server)("other", CONTROL_TIMES, server.events.append).start("0.0.0.0", 0, ""))


def test_a_worker_that_takes_no_commands_is_lost() -> None:
    worker, goes_on = Worker(), threading.Event()
    with ServerInThread() as server:
        handlers = ClientHandlers(worker.registering, lambda _told: void(goes_on.wait()), worker.refused.append)
        client = ControlClient(CoordinatorAccess(server.address, TOKEN), CONTROL_TIMES, handlers)
        client.start()
        wait_until(lambda: bool(server.connected()), "it registers")
        for _ in range(2 * MESSAGES_MAX):
            server.send("w1", SlotCommand("s", b"x" * 100, deploys=False, leaves=False))
        wait_until(lambda: bool(server.lost()), "it is lost")
        assert server.lost()[0].reason == "it does not take its commands"
        goes_on.set()
        client.close(0)


def void(_: object) -> None:
    """For callbacks."""


def test_a_worker_that_had_more_to_say_than_it_could_keep_starts_anew() -> None:
    worker = Worker()
    with proxied(CONTROL_TIMES) as (server, proxy), connected(server, worker, through=proxy.address) as client:
        proxy.cut(open_after=False)
        for _ in range(MESSAGES_MAX + 1):
            client.send(SlotDown("old", "of a time before", clean=False))
        proxy.cut(open_after=True)
        wait_until(lambda: len(server.connected()) == 2, "it joins again")
        client.send(SlotDown("new", "after it", clean=False))
        wait_until(lambda: bool(server.said()) and server.said()[-1].slot == "new", "it speaks")
        assert [each.reason for each in server.lost()] == ["it was started anew"]


def test_a_word_that_cannot_be_dealt_with_leaves_no_deaf_worker(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(list[ToWorker]):
        def append(self, message: ToWorker) -> None:
            super().append(message)
            if len(self) == 1:
                raise ValueError("stumbled")

    worker = Worker(told=Clumsy())
    with ServerInThread() as server, connected(server, worker):
        server.send("w1", KillSlot("a"))
        wait_until(lambda: len(server.connected()) == 2, "it joins anew")
        server.send("w1", KillSlot("b"))
        wait_until(lambda: KillSlot("b") in worker.told, "it hears again")
    assert worker.told == [KillSlot("a"), KillSlot("b")]
    assert "stumbled" in caplog.text


def test_a_large_message_of_a_worker_passes() -> None:
    worker, down = Worker(), SlotDown("s", "x" * (5 << 20), clean=False)
    with ServerInThread() as server, connected(server, worker) as client:
        client.send(down)
        wait_until(lambda: server.said() == [down], "it comes")
        assert len(server.connected()) == 1


def test_a_worker_follows_the_leader_and_ignores_one_of_an_earlier_term(tmp_path: Path) -> None:
    worker = Worker()
    with announcing(tmp_path) as elector, ServerInThread(term=4) as first, ServerInThread(term=7) as second:
        elector.announce(Leader("http://x:1", first.address, 4))
        client = worker.connect(f"file://{tmp_path}")
        try:
            wait_until(lambda: bool(first.connected()), "the first leader")
            # still there: cut off from the election, not from its workers
            elector.announce(Leader("http://y:1", second.address, 7))
            wait_until(lambda: bool(second.connected()), "the second leader")
            # it was suspended, and publishes its address once more; the worker's stream drops at this moment
            elector.announce(Leader("http://x:1", first.address, 4))
            second.stop()
            wait_until(lambda: "led the cluster in term 4, and this is term 7" in client.trouble, "a refusal")
            first.send("w1", StopWorker())
            with ServerInThread(term=9) as third:
                elector.announce(Leader("http://z:1", third.address, 9))
                wait_until(lambda: bool(third.connected()), "the third leader")
            assert worker.told == []
        finally:
            client.close(0)


def test_a_later_leader_may_refuse_a_worker_and_an_earlier_one_may_not(tmp_path: Path) -> None:
    """During an upgrade, a worker of the old version joined the old leader, and finds a new one."""
    worker = Worker()
    servers = (ServerInThread(term=term) for term in (4, 7, 9))
    with ExitStack() as stack:
        elector = stack.enter_context(announcing(tmp_path))
        early, joined, late = (stack.enter_context(each) for each in servers)
        elector.announce(Leader("http://x:1", joined.address, 7))
        client = worker.connect(f"file://{tmp_path}")
        try:
            wait_until(lambda: bool(joined.connected()), "it joins")
            worker.register = replace(worker.register, version="0.0.0")
            # it was suspended, and publishes its address once more
            elector.announce(Leader("http://y:1", early.address, 4))
            joined.stop()
            before = worker.registered
            wait_until(lambda: worker.registered > before + 2, "it was refused, and dials again")
            assert worker.refused == []
            elector.announce(Leader("http://z:1", late.address, 9))
            wait_until(lambda: bool(worker.refused), "the leader refuses it")
        finally:
            client.close(0)
        assert "headrace 0.0.0" in worker.refused[0].reason
        assert early.connected() == late.connected() == []
