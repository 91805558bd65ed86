"""Where the rows for one channel of a mailbox go in, wherever that mailbox is."""

from __future__ import annotations

from typing import Protocol

from headrace.core.signals import Element


class Outlet(Protocol):
    """The sending end of one channel. Used by one thread."""

    def put(self, element: Element) -> None:
        """Appends in order. A batch waits for room, a signal does not. Raises Cancelled once the job is torn down,
        ExternalError when the reader is lost."""
        ...

    @property
    def waited_ms(self) -> float:
        """How long batches waited for room so far: backpressure."""
        ...
