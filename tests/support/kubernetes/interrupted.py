"""A connection to an API server, on which somebody else acts between two requests about an object."""

from __future__ import annotations

from collections.abc import Callable

from headrace.kubernetes.access import Access
from headrace.kubernetes.connection import Connection, Operation
from headrace.kubernetes.documents import Document, text_at
from headrace.kubernetes.transport import Request


class InterruptedConnection(Connection):
    """Calls `action` once: after the answer number `after`, from 1, about the object `name` of `plural`."""

    def __init__(self, access: Access, plural: str, name: str, after: int, action: Callable[[], None]) -> None:
        super().__init__(access)
        self._object = (plural, name)
        self._left = after
        self._action = action

    @property
    def was_interrupted(self) -> bool:
        """Whether there were so many answers."""
        return self._left <= 0

    def _document(self, operation: Operation, request: Request, timeout_s: float) -> Document:
        try:
            return super()._document(operation, request, timeout_s)
        finally:
            name = operation.name or text_at(dict(request.body or {}), "metadata", "name")  # type: ignore[arg-type]
            if (operation.collection.plural, name) == self._object:
                self._left -= 1
                if self._left == 0:
                    self._action()
