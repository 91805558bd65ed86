"""What reads a run's metrics every second, as Prometheus does; and a run that makes no figures at all."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

EVERY_S, ANSWER_S = 1.0, 10.0
_NO_FIGURES = """\
import headrace.rpc.figures

headrace.rpc.figures.FIGURES_INTERVAL_MS = 10**15
"""
"""Read by every interpreter of a run at its start, before a slot reads the interval: it is never over."""


@contextmanager
def scraped(port: int) -> Iterator[list[int]]:
    """Reads `/metrics` every second until the context ends; gives the sizes of the answers, in bytes."""
    sizes: list[int] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(EVERY_S):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_S) as answer:
                    sizes.append(len(answer.read()))
            except urllib.error.URLError:
                continue  # the run has not begun to listen, or has ended

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield sizes
    finally:
        over.set()
        reader.join()


def without_figures(folder: Path) -> Mapping[str, str]:
    """Returns environment variables with which no slot reports figures. folder: gets a file of the interpreter's."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_NO_FIGURES)
    return {"PYTHONPATH": str(folder)}
