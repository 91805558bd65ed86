"""A program for `headrace.processes` that does what a test tells it over its socket, one JSON document a line."""

from __future__ import annotations

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
from typing import Any, NoReturn

import numpy as np
import polars as pl

PROGRAM, ROLE = "support.told_program", "headrace-told"


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
        case "orphan":
            # outlives this process, then ends
            return subprocess.Popen(["/bin/sh", "-c", values[0]]).pid
        case _:
            raise AssertionError(word)


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
        "handlers": len(logging.root.handlers),
        "threads": [thread.name for thread in threading.enumerate()],
        "main": str(sys.modules["__main__"].__name__),
        "stdin": sys.stdin.read(),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
