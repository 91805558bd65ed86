"""A job's connector host over the job's life: starts it when it is needed, replaces it if it died, and keeps the splits
that it has found.

    open     ─> ConnectorHostOpened, ConnectorHostFailed; if it is open already, ConnectorHostOpened is posted again
    discover ─> SplitsFound;  sweep ─> nothing;  it dies ─> ConnectorHostFailed

Shell: it translates calls into events. The machine decides what the events mean. The driver sends requests to the
committers of `process` itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.coordinator.job import events as on
from headrace.coordinator.job.effects import OpenHost
from headrace.core.errors import Domain, HeadraceError
from headrace.processes.spawning import Starter
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Failure

LOG = logging.getLogger("headrace.coordinator")


class JobHost:
    """The host of one job, in the event loop.

    post      receives the events
    over      set when the job is over; from then on no process is started
    log       file for the process's output; environment: added to this process's
    starter   starts the process; by default a fresh interpreter
    """

    def __init__(
        self,
        job: str,
        environment: Mapping[str, str],
        log: Path | None,
        post: Callable[[on.Event], None],
        over: asyncio.Event,
        starter: Starter | None = None,
    ) -> None:
        self._job = job
        self._starter = starter
        self._environment = environment
        self._log = log
        self._post = post
        self._over = over
        self._host: ConnectorHost | None = None
        self._opened: on.ConnectorHostOpened | None = None
        self._opening = asyncio.Lock()
        self._openings = 0
        self._watching: set[asyncio.Task[None]] = set()

    @property
    def process(self) -> ConnectorHost | None:
        """The newest process; None before the first `open` and after `close`. It may have died."""
        return self._host

    async def open(self, pipeline: Mapping[str, Any], opening: OpenHost) -> None:
        """Posts ConnectorHostOpened or ConnectorHostFailed. If several calls overlap, only the newest one posts."""
        self._openings += 1
        number = self._openings
        async with self._opening:
            if self._host is None or self._host.died.is_set() or self._opened is None:
                try:
                    failed = await self._start(pipeline, opening)
                except Exception:
                    # the driver reports the error; the started process must not outlive it
                    await self.close()
                    raise
                if failed is not None:
                    await self.close()
                    if number == self._openings:
                        self._post(failed)
                    return
        if number == self._openings and self._opened is not None:
            self._post(self._opened)

    async def _start(self, pipeline: Mapping[str, Any], opening: OpenHost) -> on.ConnectorHostFailed | None:
        self._opened = None
        try:
            self._host = host = await ConnectorHost.start(
                self._job, self._environment, self._log, starter=self._starter
            )
            if self._over.is_set():
                # The job ended while the process was being started. The driver's `close` found no host to close, so it
                # will not end this process: `open` ends it, because this returns a failure.
                return on.ConnectorHostFailed(Failure("the job is over", Domain.EXTERNAL.value, retry=True))
        except HeadraceError as error:
            return on.ConnectorHostFailed(failure_of(error))
        try:
            found = await host.open(
                pipeline,
                opening.known,
                foreign=opening.foreign,
                accepted=opening.accepted,
                formats=opening.formats,
            )
        except HeadraceError as error:
            # if the process is alive, a connector refused to open; if it is dead, it crashed: only a refusal may end
            # the job (`Job.ends_if_refused`)
            return on.ConnectorHostFailed(failure_of(error), refused=not host.died.is_set())
        self._opened = on.ConnectorHostOpened(
            splits={source: each.splits for source, each in found.items()},
            intervals={source: each.interval_ms for source, each in found.items()},
            final=frozenset(source for source, each in found.items() if each.final),
            begins=host.begins,
            formats=host.formats,
        )
        watching = asyncio.create_task(self._watch(host), name=f"host of job {self._job}")
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return None

    async def _watch(self, host: ConnectorHost) -> None:
        await host.died.wait()
        if not self._over.is_set():
            text = f"the connector host of the job died: {host.reason}"
            self._post(on.ConnectorHostFailed(Failure(text, Domain.EXTERNAL.value, retry=True)))

    async def discover(self, source: str) -> None:
        """Asks the enumerator for new splits. A failure is only logged: the machine asks again."""
        if self._host is None:
            return
        try:
            found = await self._host.discover(source)
        except HeadraceError as error:
            LOG.warning("job %s: source %s could not be looked at for new splits: %s", self._job, source, error.message)
            return
        if found and self._opened is not None:
            splits = {**self._opened.splits, source: (*self._opened.splits.get(source, ()), *found)}
            self._opened = replace(self._opened, splits=splits)
            self._post(on.SplitsFound(source, found))

    async def sweep(self, attempt: int) -> None:
        """Ends transactions that writers of earlier attempts began after they were fenced. Best effort: the machine
        requests it again."""
        host = self._host
        if host is None or self._over.is_set():
            return
        try:
            ended = await host.sweep(attempt)
        except HeadraceError as error:
            LOG.warning("job %s: late transactions could not be looked for: %s", self._job, error.message)
            return
        if ended:
            LOG.warning("job %s: ended transactions of earlier attempts: %s", self._job, ", ".join(ended))

    async def close(self) -> None:
        """Ends the process, if there is one. Idempotent."""
        host, self._host = self._host, None
        if host is not None:
            await host.close()
