"""A program for `headrace.processes` that does what a test tells it over its socket, one JSON document a line."""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import Queue
from typing import Any, NoReturn

import numpy as np
import polars as pl

from headrace.worker.slot.memory_decay import resident_bytes, start_memory_decay

PROGRAM, ROLE = "support.processes.told_program", "headrace-told"


def preload() -> None:
    """Everything is imported."""


def main(arguments: list[str]) -> NoReturn:
    """Answers until it is told to exit, or nobody tells it anything any more."""
    connection = socket.socket(fileno=int(arguments[arguments.index("--fd") + 1]))
    lines = connection.makefile("rw", encoding="utf-8")
    for line in lines:
        word, *values = json.loads(line)
        lines.write(json.dumps(_obey(word, values)) + "\n")
        lines.flush()
    sys.exit(0)


def _obey(word: str, values: list[Any]) -> object:
    match word:
        case "hello":
            return "hello"
        case "facts":
            return _facts()
        case "exit":
            os._exit(values[0])
        case "raise":
            raise SystemExit(values[0])
        case "query":
            return pl.DataFrame({"k": [1, 1, 2]}).group_by("k").len().sort("k").to_dicts()
        case "peak":
            return _resident_after_a_peak()
        case "resident":
            return resident_bytes()
        case "trickle":
            return pl.DataFrame({"k": [1, 2] * 10}).group_by("k").len().height
        case "orphan":
            # outlives this process, then ends
            return subprocess.Popen(["/bin/sh", "-c", values[0]]).pid
        case _:
            raise AssertionError(word)


def _resident_after_a_peak() -> int:
    """Bytes at the peak. Frames of the size of batches come and go, in a thread that lives on, as a subtask's does."""
    start_memory_decay()
    peak: Queue[int] = Queue()

    def work() -> None:
        frames = [
            pl.DataFrame({"k": np.arange(32_768) % 7_919}).with_columns(s=pl.col("k").cast(pl.String))
            for _ in range(150)
        ]
        peak.put(resident_bytes())
        frames.clear()
        threading.Event().wait()

    threading.Thread(target=work, daemon=True).start()
    return peak.get()


def _facts() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "descriptors": {link.name: str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()},
        "environment": dict(os.environ),
        "temporary": tempfile.gettempdir(),
        "arguments": sys.argv[1:],
        "path": sys.path,
        "folder": str(Path.cwd()),
        "handled": [
            number.name
            for number in signal.valid_signals()
            if isinstance(number, signal.Signals) and callable(signal.getsignal(number))
        ],
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "random": [random.random(), float(np.random.random())],
        "collector": [gc.isenabled(), *gc.get_threshold()],
        "handlers": len(logging.root.handlers),
        "threads": [thread.name for thread in threading.enumerate()],
        "main": str(sys.modules["__main__"].__name__),
        "stdin": sys.stdin.read(),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
