"""A connector as clients of messaging systems are: a thread that its import starts does all of the work.

Where a process is forked after this import, the thread is not in the child, and gives no answer.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue

from headrace.connect.registry import Connector
from headrace.connect.source import Enumerator, Polled, Reader, SourceContext
from headrace_connectors.generator import GeneratorSourceConfig
from headrace_connectors.generator.source import GeneratorReader

_asked: SimpleQueue[Future[int]] = SimpleQueue()


def _answer() -> None:
    """Gives the process that the thread lives in."""
    while True:
        _asked.get().set_result(os.getpid())


threading.Thread(target=_answer, name="threaded-connector", daemon=True).start()


def ask() -> None:
    """Waits for the thread's leave. Raises TimeoutError where this process has no such thread."""
    future: Future[int] = Future()
    _asked.put(future)
    assert future.result(timeout=60) == os.getpid()


class ThreadedSource(GeneratorSourceConfig):
    """The generator's rows, by leave of the thread."""

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        ask()
        return super().open_enumerator(context)

    def open_reader(self, context: SourceContext) -> Reader:
        return ThreadedReader(self, context)


class ThreadedReader(GeneratorReader):
    """Asks before each poll."""

    def poll(self, timeout_ms: int) -> Polled:
        ask()
        return super().poll(timeout_ms)


CONNECTOR = Connector(
    name="threaded",
    summary="Rows of a thread",
    source=ThreadedSource,
    example_source="threaded:\n  rows: 3\n  columns: {n: {sequence: {}}}\nschema:\n  n: int64\n",
)
