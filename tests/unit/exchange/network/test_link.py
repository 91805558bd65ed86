"""A link by itself: what it takes for silence, and what not."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from headrace.core.errors import HeadraceError
from headrace.exchange.network import link as link_module
from headrace.exchange.network.link import Link, LinkTimes
from headrace.exchange.network.wire import HEADER, FrameType
from support.stepped_clock import SteppedClock

TIMES = LinkTimes()


class Halting(socket.socket):
    """A socket whose process is stopped just after it found that nothing has come, and goes on after a minute."""

    clock: SteppedClock
    peer: socket.socket
    halts = 1

    def recv_into(self, *arguments: Any) -> int:
        """As ever, but for the first time."""
        if self.halts:
            self.halts -= 1
            self.peer.sendall(HEADER.pack(0, FrameType.BYE, 0))
            self.peer.shutdown(socket.SHUT_WR)
            self.clock.step_ms(60_000)
            raise BlockingIOError
        return super().recv_into(*arguments)


def test_what_came_while_this_process_stood_still_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedClock()
    monkeypatch.setattr(link_module, "time", clock)
    ours, theirs = socket.socketpair()
    ends: list[HeadraceError | None] = []
    with Halting(fileno=ours.detach()) as halting, theirs:
        halting.clock, halting.peer = clock, theirs
        Link(halting, "slot 1", TIMES, lambda _header, _payload: None, ends.append).run()
    assert not halting.halts
    assert ends == [None], "its goodbye was heard"


def test_silence_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedClock()
    monkeypatch.setattr(link_module, "time", clock)
    ours, theirs = socket.socketpair()
    ends: list[HeadraceError | None] = []
    with ours, theirs:
        link = Link(ours, "slot 1", TIMES, lambda _header, _payload: None, ends.append)
        clock.step_ms(TIMES.lost_ms + 1)
        link.run()
    (loss,) = ends
    assert loss is not None
    assert "nothing was heard of it for 15,000 ms" in loss.message
