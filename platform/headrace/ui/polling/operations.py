"""Long operations that users have begun on pages: a page may be closed and opened again meanwhile. Bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from headrace.ui.polling.cluster_access import ClusterAccess

KEPT_OF_JOB, JOBS_MAX = 3, 100


@dataclass(slots=True)
class Operation:
    """An operation of a job. text: how it stands; failed: None while it runs."""

    name: str
    text: str = "in progress"
    failed: bool | None = None


class Operations:
    """The newest operations of each job."""

    def __init__(self, access: ClusterAccess, changed: Callable[[], None]) -> None:
        """changed: called when an operation begins or ends."""
        self._access = access
        self._changed = changed
        self._of_job: dict[str, deque[Operation]] = {}

    def of(self, job: str) -> tuple[Operation, ...]:
        """The newest operations of a job, the newest first."""
        return tuple(self._of_job.get(job, ()))

    async def run(self, job: str, name: str, action: Callable[[Client, Callable[[str], object]], str]) -> Operation:
        """Performs an operation to its end. action: gets a client, and a function that shows a step; returns the text
        of its success."""
        operation = Operation(name)
        own = self._of_job.setdefault(job, deque(maxlen=KEPT_OF_JOB))
        own.appendleft(operation)
        while len(self._of_job) > JOBS_MAX:
            del self._of_job[next(iter(self._of_job))]
        self._changed()

        def show(text: str) -> None:
            operation.text = text

        try:
            operation.text = await self._access.act(lambda client: action(client, show))
            operation.failed = False
        except HeadraceError as error:
            operation.text, operation.failed = str(error), True
        self._changed()
        return operation
