"""A call that may block, beside a loop that must not."""

from __future__ import annotations

import threading

import pytest

from headrace.local.engine.background import Background
from support.running import WAIT_SECONDS


def test_it_is_done_when_the_call_has_ended_and_gives_what_it_gave() -> None:
    door, told = threading.Event(), threading.Event()

    def call() -> int:
        door.wait(2 * WAIT_SECONDS)
        return 7

    background = Background("b", call, told.set)
    assert not background.done
    assert not background.wait(0.01)
    door.set()
    assert told.wait(WAIT_SECONDS)
    assert background.done
    assert background.result() == 7
    assert background.wait(WAIT_SECONDS)


def test_what_the_call_raised_is_raised_by_result() -> None:
    def call() -> None:
        raise ValueError("no")

    background = Background("b", call, lambda: None)
    with pytest.raises(ValueError, match="no"):
        background.result()
    assert background.done
