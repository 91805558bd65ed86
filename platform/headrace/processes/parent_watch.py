"""Ends this process with its parent, which holds the other end of its standard input. Works on every system, also for a
parent that is killed."""

from __future__ import annotations

import os
import signal
import threading


def end_with_parent() -> None:
    """Has the end of standard input end this process as by SIGTERM."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
