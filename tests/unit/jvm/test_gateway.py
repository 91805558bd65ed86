from __future__ import annotations

import signal
import subprocess
import sys
import threading

from headrace.jvm.gateway import ignored_by_children

COMMAND = (sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)")


def ignores() -> bool:
    return subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_child_ignores_ctrl_c_and_this_process_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ignored_by_children():
        assert ignores()
    assert not ignores()
    assert signal.getsignal(signal.SIGINT) == before


def test_other_threads_start_children_as_ever() -> None:
    done: list[bool] = []

    def call() -> None:
        with ignored_by_children():
            done.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert done == [True]
