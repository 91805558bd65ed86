from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from headrace.spark.cluster.deferred_interrupts import deferred_interrupts, ignored_by_children

IGNORES = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"


def test_an_interrupt_comes_after_the_call() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("the call goes on")
    assert steps == ["the call goes on"]


def test_the_handler_of_the_command_handles_a_termination() -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: handled.append(number))
    try:
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
            assert handled == []
        assert handled == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert handled == [signal.SIGTERM] * 2, "and the next one at once"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_of_the_call_is_not_lost_without_a_signal() -> None:
    with pytest.raises(ValueError, match="of the call"), deferred_interrupts():
        raise ValueError("of the call")


def test_other_threads_are_left_alone() -> None:
    done: list[bool] = []

    def call() -> None:
        with deferred_interrupts(), ignored_by_children():
            done.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("ignored", [True, False])
def test_a_child_ignores_ctrl_c_and_this_process_does_not(ignored: bool) -> None:
    command = [sys.executable, "-c", IGNORES]
    before = signal.getsignal(signal.SIGINT)
    if ignored:
        with ignored_by_children():
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == str(ignored)
    assert signal.getsignal(signal.SIGINT) == before
