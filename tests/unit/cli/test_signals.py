from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from headrace.cli.signals import ENDING, handled, leaving_at_once


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Exit codes of this process, which stays."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.fixture(autouse=True)
def hangup_is_heard() -> Iterator[None]:
    """Whoever runs the tests may have it ignored: `nohup` does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_command_is_left_at_once_until_its_job_runs(left: list[int], capfd: pytest.CaptureFixture[str]) -> None:
    taken: list[int] = []
    with leaving_at_once("ended before anything ran"):
        os.kill(os.getpid(), signal.SIGTERM)
        with handled(taken.append):
            for number in ENDING:
                os.kill(os.getpid(), number)
        assert {signal.getsignal(number) for number in ENDING} == {signal.SIG_DFL}
    assert left == [128 + signal.SIGTERM]
    assert taken == list(ENDING)
    assert capfd.readouterr().err == "\nended before anything ran\n"


def test_what_was_there_is_restored(left: list[int]) -> None:
    """Also after an error: a later test that interrupts itself would kill its process."""
    before = [signal.getsignal(number) for number in ENDING]
    with pytest.raises(KeyError), leaving_at_once("ended"), handled(left.append):
        raise KeyError
    assert [signal.getsignal(number) for number in ENDING] == before


def test_what_is_ignored_stays_so(left: list[int]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with leaving_at_once("ended"), handled(left.append):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert left == []
