"""A sink that drops its rows, and waits for each batch as one does whose system is slow."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.connect.registry import Connector
from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer


class WaitingSink(SinkConfig):
    """Takes `wait_ms` for each batch."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"
    wait_ms: int

    def open_writer(self, context: SinkContext) -> Writer:
        return WaitingWriter(self.wait_ms)


class WaitingWriter:
    """Waits, and keeps nothing."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_s = wait_ms / 1_000
        self._never = threading.Event()

    def write(self, batch: SinkBatch) -> None:
        self._never.wait(self._wait_s)

    def flush(self, epoch: int) -> Sequence[Committable]:
        return ()

    def close(self) -> None:
        pass


CONNECTOR = Connector(name="waiting", summary="a sink that waits for each batch", sink=WaitingSink)
