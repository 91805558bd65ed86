"""One poller for all pages: asks the coordinator for what open pages want, and for the figures of all jobs.

    a page is open    figures of all jobs in one request, and each wanted document, every `FAST_S`
    no page is open   figures of all jobs every `SLOW_S`, so that no plot starts empty

A request that fails leaves the last documents as they are; `trouble` names the error and `age_s` is their age.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from headrace.client.cluster_models import ClusterInfo
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.http import Client
from headrace.client.models import CheckpointInfo, ExceptionInfo, JobStatus
from headrace.core.errors import HeadraceError, UnreachableError
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.wanted import Topic, Want, Wanted
from headrace.ui.views.samples import ClusterSamples

FAST_S, SLOW_S = 2.0, 10.0
Document = JobStatus | Bottleneck | tuple[CheckpointInfo, ...] | tuple[ExceptionInfo, ...] | ClusterInfo
_log = logging.getLogger(__name__)


class Poller:
    """The documents that pages show. It belongs to the event loop."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self.samples = ClusterSamples()
        self.figures: tuple[JobFigures, ...] = ()
        self.trouble: str | None = None
        """Why the last round has failed; None: it has not."""
        self.listeners: set[Callable[[], None]] = set()
        """Called after each round, in the loop; they raise nothing."""
        self.is_closed = False
        self._wanted = Wanted()
        self._documents: dict[Want, Document] = {}
        self._errors: dict[Want, HeadraceError] = {}
        self._answered_s: float | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts polling; called in the loop."""
        self._task = asyncio.create_task(self._run(), name="poller")

    async def close(self) -> None:
        """Stops polling, and closes the access; `is_closed` tells whether no request is under way any more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self.is_closed = await self.access.close()

    # ---- for pages -----------------------------------------------------------------------------------------------

    def want(self, want: Want) -> None:
        """A page has begun to show the document: it is asked for at once."""
        self._wanted.add(want)
        self._wake.set()

    def drop(self, want: Want) -> None:
        """A page has ceased to show it."""
        self._wanted.drop(want)
        if want not in self._wanted:
            self._documents.pop(want, None)
            self._errors.pop(want, None)

    def refresh(self) -> None:
        """Asks again at once: a user has changed something."""
        self._wake.set()

    @property
    def age_s(self) -> float | None:
        """How old the documents are; None: the coordinator has not answered yet."""
        return None if self._answered_s is None else time.monotonic() - self._answered_s

    def status(self, job: str, node: str | None) -> JobStatus | None:
        """A job's status, as last read; None: not yet."""
        document = self._documents.get(Want(Topic.STATUS, job, node))
        return document if isinstance(document, JobStatus) else None

    def checkpoints(self, job: str) -> tuple[CheckpointInfo, ...] | None:
        """A job's checkpoints, as last read; None: not yet."""
        document = self._documents.get(Want(Topic.CHECKPOINTS, job))
        return document if isinstance(document, tuple) else None  # type: ignore[return-value]

    def exceptions(self, job: str) -> tuple[ExceptionInfo, ...] | None:
        """A job's failures, as last read; None: not yet."""
        document = self._documents.get(Want(Topic.EXCEPTIONS, job))
        return document if isinstance(document, tuple) else None  # type: ignore[return-value]

    def bottleneck(self, job: str) -> Bottleneck | None:
        """Why a job is slow, as last read; None: not yet."""
        document = self._documents.get(Want(Topic.BOTTLENECK, job))
        return document if isinstance(document, Bottleneck) else None

    def cluster(self) -> ClusterInfo | None:
        """The cluster, as last read; None: not yet."""
        document = self._documents.get(Want(Topic.CLUSTER))
        return document if isinstance(document, ClusterInfo) else None

    def error(self, *wants: Want) -> HeadraceError | None:
        """Why the coordinator refuses one of the documents, such as those of an unknown job; None: it does not."""
        return next((self._errors[want] for want in wants if want in self._errors), None)

    # ---- polling -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._round()
            except HeadraceError as error:
                self._set_trouble(error.message)
            except Exception:  # the poller lives as long as its process
                _log.exception("a poll has failed")
                self._set_trouble("the page failed to read an answer; its log has the reason")
            for listener in list(self.listeners):
                listener()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAST_S if len(self._wanted) else SLOW_S):
                    await self._wake.wait()

    def _set_trouble(self, text: str) -> None:
        if self.trouble is None:
            _log.warning("%s", text)
        self.trouble = text

    async def _round(self) -> None:
        figures = await self.access.poll(Client.figures)
        self.figures = figures
        self.samples.add(figures, int(time.time() * 1000))
        for want in self._wanted.all():
            try:
                document = await self.access.poll(lambda client, want=want: _read(client, want))  # type: ignore[misc]
            except UnreachableError:
                raise
            except HeadraceError as error:
                # of this document alone, such as a job that is not known, or whose storage is away
                self._errors[want] = error
                continue
            if want in self._wanted:
                self._documents[want] = document
                self._errors.pop(want, None)
        self.trouble = None
        self._answered_s = time.monotonic()


def _read(client: Client, want: Want) -> Document:
    match want.topic:
        case Topic.STATUS:
            return client.status_of_nodes(want.job, want.node)
        case Topic.CHECKPOINTS:
            return client.checkpoints(want.job)
        case Topic.EXCEPTIONS:
            return client.exceptions(want.job)
        case Topic.BOTTLENECK:
            return client.bottleneck(want.job)
        case Topic.CLUSTER:
            return client.cluster()
