"""Calls that a process was in when it died are read from its folder."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from headrace.core.files.running_calls import CALLS_MAX, TEXT_BYTES_MAX, RunningCalls, calls_of


def test_a_call_is_recorded_while_it_runs(tmp_path: Path) -> None:
    record = RunningCalls(tmp_path)
    assert calls_of(tmp_path) == []
    with record.recorded("outer"), record.recorded("ä" * TEXT_BYTES_MAX):
        seen = calls_of(tmp_path)
        assert "outer" in seen
        assert len(seen) == 2
    with pytest.raises(KeyError), record.recorded("raises"):
        raise KeyError
    assert calls_of(tmp_path) == []


@pytest.mark.parametrize("how", [lambda: os._exit(1), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_the_record_outlives_the_process(how: object, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        assert callable(how)
        with RunningCalls(tmp_path).recorded("m:f of step 'a'"):
            how()
    os.waitpid(child, 0)
    assert calls_of(tmp_path) == ["m:f of step 'a'"]


def test_more_threads_than_records_run_all_the_same(tmp_path: Path) -> None:
    record, together = RunningCalls(tmp_path), threading.Barrier(2 * CALLS_MAX + 1)

    def call(name: str) -> None:
        with record.recorded(name):
            together.wait()
            together.wait()

    threads = [threading.Thread(target=call, args=[f"call {number}"]) for number in range(2 * CALLS_MAX)]
    for thread in threads:
        thread.start()
    together.wait()
    assert len(calls_of(tmp_path)) == CALLS_MAX
    together.wait()
    for thread in threads:
        thread.join()
    assert calls_of(tmp_path) == []


def test_a_process_without_a_record_was_in_no_call(tmp_path: Path) -> None:
    assert calls_of(tmp_path / "none") == []
