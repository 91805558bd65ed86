"""A run that reports figures, and whose metrics are read as Prometheus does, in every second phase of some seconds.

What it costs is less than what two runs of the same differ by on a machine that others use. So one run is compared with
itself: slots report figures and somebody reads the metrics for a phase, and for the next one neither.
"""

from __future__ import annotations

import http.client
import os
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PHASE_MS = 4_000
"""Of the monotonic clock, which all processes of a machine share."""
EVERY_S, ANSWER_S = 1.0, 10.0
"""Between two requests; for one answer."""
_ROWS = b"headrace_node_rows_in_total{"
_IN_PHASES = """\
from pathlib import Path

import headrace.rpc.figures as figures

PHASE_MS = {phase_ms}


class Interval(int):
    def __radd__(self, now_ms):  # when the next figures are due
        phase, into_ms = divmod(now_ms + int(self), PHASE_MS)
        if phase % 2 == 0:
            return phase * PHASE_MS + into_ms
        (Path(__file__).parent / "done").touch()
        return (phase + 1) * PHASE_MS


figures.FIGURES_INTERVAL_MS = Interval(figures.FIGURES_INTERVAL_MS)
"""
"""Runs at the start of each interpreter of a run, before a slot reads the interval. Without figures a slot counts as
always."""


def phase(at_ms: float) -> int:
    """The number of the phase of a time (epoch ms). Figures are reported in even ones."""
    return int(at_ms - time.time() * 1000 + time.monotonic() * 1000) // PHASE_MS


@contextmanager
def scraped(port: int) -> Iterator[list[int]]:
    """Reads `/metrics` every second of a phase with figures until the context ends; gives the phases of the answers
    that have rows of the job."""
    answers: list[int] = []
    over = threading.Event()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read() -> None:
        while not over.wait(EVERY_S):
            if (now := phase(time.time() * 1000)) % 2:
                continue
            try:
                with direct.open(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_S) as answer:
                    if _ROWS in answer.read():
                        answers.append(now)
            except (OSError, http.client.HTTPException):
                continue  # the run has not begun to listen, or has ended

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield answers
    finally:
        over.set()
        reader.join()


def in_phases(folder: Path) -> Mapping[str, str]:
    """Returns environment variables with which slots report figures in even phases only. folder: receives a module that
    each interpreter imports at its start.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_IN_PHASES.format(phase_ms=PHASE_MS))
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def paused(folder: Path) -> bool:
    """Whether a slot has put figures off to the next even phase."""
    return (folder / "done").exists()
