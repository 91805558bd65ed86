"""The sending end of one mailbox channel, whether the mailbox is local or remote."""

from __future__ import annotations

from typing import Protocol

from headrace.core.signals import Element
from headrace.exchange.edge.rows import Rows


class Outlet(Protocol):
    """The sending end of one channel. Used by one thread."""

    def put(self, element: Element | Rows) -> None:
        """Appends in order. A batch waits for room, a signal does not. Raises TaskCancelledError once the attempt is
        torn down, ExternalError if the reader is lost."""
        ...

    @property
    def waited_ms(self) -> float:
        """How long batches have waited for room so far, in ms: backpressure."""
        ...
