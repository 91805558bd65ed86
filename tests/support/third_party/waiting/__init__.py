"""A sink that drops its rows, and waits for each batch and for its end as one does whose system is slow."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.connect.registry import Connector
from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer


class WaitingSink(SinkConfig):
    """Takes `wait_ms` for each batch, and `close_s` in a call of C to close."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"
    wait_ms: int
    close_s: int = 0

    def open_writer(self, context: SinkContext) -> Writer:
        return WaitingWriter(self.wait_ms, self.close_s)


class WaitingWriter:
    """Waits, and keeps nothing."""

    def __init__(self, wait_ms: int, close_s: int) -> None:
        self._wait_s, self._close_s = wait_ms / 1_000, close_s
        self._never = threading.Event()

    def write(self, batch: SinkBatch) -> None:
        self._never.wait(self._wait_s)

    def flush(self, epoch: int) -> Sequence[Committable]:
        return ()

    def close(self) -> None:
        ctypes.CDLL(None).sleep(self._close_s)


CONNECTOR = Connector(name="waiting", summary="a sink that waits for each batch", sink=WaitingSink)
