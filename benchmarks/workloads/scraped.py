"""Reads a run's metrics every second, as Prometheus does; and switches off the reports of figures."""

from __future__ import annotations

import http.client
import os
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

EVERY_S, ANSWER_S = 1.0, 10.0
"""Between two requests; for one answer."""
_ROWS = b"headrace_node_rows_in_total{"
_NO_FIGURES = """\
from pathlib import Path

import headrace.rpc.figures as figures

assert figures.FIGURES_INTERVAL_MS > 0
figures.FIGURES_INTERVAL_MS = 10**15
(Path(__file__).parent / "done").touch()
"""
"""Runs at the start of each interpreter of a run, before a slot reads the interval. The first report still has figures,
and a slot counts as always: only later reports have none."""


@contextmanager
def scraped(port: int) -> Iterator[list[float]]:
    """Reads `/metrics` every second until the context ends; gives when each answer with rows of the job came (s)."""
    answers: list[float] = []
    over = threading.Event()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read() -> None:
        while not over.wait(EVERY_S):
            try:
                with direct.open(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_S) as answer:
                    if _ROWS in answer.read():
                        answers.append(time.monotonic())
            except (OSError, http.client.HTTPException):
                continue  # the run has not begun to listen, or has ended

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield answers
    finally:
        over.set()
        reader.join()


def without_figures(folder: Path) -> Mapping[str, str]:
    """Returns environment variables with which no slot reports figures. folder: receives a module that each interpreter
    imports at its start.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_NO_FIGURES)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def were_off(folder: Path) -> bool:
    """Whether an interpreter has switched them off."""
    return (folder / "done").exists()
