"""The coordinator's client of a job's connector host, a child process with the job's enumerators and committers.

    driver ──open, discover, commit, close──> ConnectorHost ══socketpair══> coordinator.connector_host.main

Owns the process, the requests in flight and their deadlines. Knows nothing of connectors: it sends and receives
documents. A host that died is never restarted: the driver starts another one, and opens it with the splits that it
knows.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.checkpoint.manifest import CommittableDocument, Formats, SplitDocument
from headrace.client.output_models import DeadLetterList, DeadLettersRequest, Redriven, RedriveRequest
from headrace.connect.sink import OpenTransaction, OutputSeen
from headrace.core.errors import ExternalError, HeadraceError, InternalError
from headrace.core.files.home_files import private_opener
from headrace.core.network.frames import LENGTH_BYTES, decode_length
from headrace.execution import connector_messages
from headrace.execution.discovered import DiscoveredSource
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.processes.supervised import SupervisedChild
from headrace.rpc.failure import error_of

__all__ = ["ConnectorHost", "DiscoveredSource", "HostTimes"]

LOG = logging.getLogger("headrace.coordinator")

PROGRAM = "headrace.coordinator.connector_host.main"
HOST_PROGRAMS = (PROGRAM, "headrace.coordinator.connector_host.host_modules")
"""The imports of a template of a process with many hosts."""
_ROLE = "headrace-connector-host"
STDERR = 2
COMMIT_RETRY_S = 1.0
LEAVING_S = 2.0
"""How long the process may take to exit after it has closed its socket, in seconds."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """How long a host may take to respond, in seconds. A host that exceeds `open_s` or `commit_s` is killed: the queue
    (`main`) hangs, and further requests in it would wait."""

    open_s: float = 120.0
    discover_s: float = 60.0
    commit_s: float = 120.0
    close_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Pending:
    request: connector_messages.Request
    answer: asyncio.Future[connector_messages.AnswerFrame]


class ConnectorHost:
    """One host process of one job; used on one event loop. Calls may overlap."""

    def __init__(
        self,
        job: str,
        child: SupervisedChild,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        times: HostTimes,
    ) -> None:
        """Called by `start` only."""
        self.died = asyncio.Event()
        """Set when the process has exited; `reason` is the cause, as text."""
        self.reason = ""
        self.begins: dict[str, dict[str, Any]] = {}
        """Sink -> the position in its external system at which output begins, as of the last `open`."""
        self.formats: Formats = {}
        """What formats have prepared, as of the last `open`."""
        self._job = job
        self._child = child
        self._reader, self._writer = streams
        self._times = times
        self._numbers = itertools.count()
        self._pending: dict[int, _Pending] = {}
        self._known: dict[str, set[tuple[str, int]]] = {}
        self._closing = False
        self._reading = asyncio.create_task(self._read(), name=f"connector-host-{job}")

    @classmethod
    async def start(
        cls,
        job: str,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        times: HostTimes | None = None,
        starter: Starter | None = None,
    ) -> ConnectorHost:
        """Starts the process.

        environment   added to this process's environment
        log           file to which the process's output is appended; None: its stdout is discarded
        starter       starts the process; None: as a fresh interpreter

        Raises ExternalError if it cannot be started.
        """
        variables = os.environ | {"POLARS_MAX_THREADS": "1"} | dict(environment or {})
        # not asyncio.create_subprocess: its child watcher and `SupervisedChild` would both wait for the process, and
        # one of them would find that the other one has reaped it
        starting = asyncio.to_thread(_started, job, variables, log, starter or SpawnStarter())
        started = asyncio.ensure_future(starting)
        try:
            # Shielded: if this call is cancelled, the thread still starts the process. `_let_leave` then closes the
            # socket of that process, which makes it exit.
            child = await asyncio.shield(started)
            return cls(job, child, await asyncio.open_connection(sock=child.connection), times or HostTimes())
        except BaseException as cause:
            started.add_done_callback(_let_leave)
            if isinstance(cause, OSError):
                raise ExternalError(f"no connector host for job {job}: {cause}", retry=True) from cause
            raise

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    async def open(
        self,
        pipeline: Mapping[str, Any],
        known: Mapping[str, Sequence[SplitDocument]],
        *,
        foreign: bool = False,
        accepted: Sequence[str] = (),
        formats: Formats | None = None,
    ) -> dict[str, DiscoveredSource]:
        """Prepares formats and sinks, opens enumerators and committers, and returns the splits by source.

        known     splits of an earlier start of this job: they keep their `start` and `stop`
        foreign   `known` is from another job (a savepoint): `stop` is resolved again
        accepted  topics that may differ from those of `known`: they begin as new ones
        formats   what formats have prepared before

        May be called again, with the splits that are known then. The host needs no code of the user: connectors are
        installed packages, and planning imports no function of the user. Raises the HeadraceError that a connector
        raised; ExternalError with `retry` if the process died or does not respond.
        """
        request = connector_messages.OpenRequest(
            job=self._job,
            pipeline=dict(pipeline),
            known={source: tuple(splits) for source, splits in known.items()},
            foreign=foreign,
            accepted=tuple(accepted),
            formats=formats or {},
        )
        answer = await self._ask_or_kill(request, self._times.open_s)
        self._known = {
            source: {(each.topic, each.partition) for each in found.splits} for source, found in answer.opened.items()
        }
        self.begins, self.formats = answer.begins, answer.formats
        return answer.opened

    async def discover(self, source: str) -> tuple[SplitDocument, ...]:
        """Returns the splits of a source that no earlier response contained. Raises as `open`.

        A discovery that exceeds its time limit raises ExternalError, but the host is not killed. Until its response
        arrives, every further discovery of the same source raises ExternalError, too.
        """
        request = connector_messages.DiscoverRequest(source=source)
        if any(each.request == request for each in self._pending.values()):
            raise ExternalError(f"source {source!r} still looks for new splits", retry=True)
        try:
            found = (await self._ask(request, self._times.discover_s)).splits
        except TimeoutError as cause:
            text = f"source {source!r} did not find its splits within {self._times.discover_s:g} s"
            raise ExternalError(text, retry=True) from cause
        known = self._known.setdefault(source, set())
        fresh = tuple(split for split in found if (split.topic, split.partition) not in known)
        known.update((split.topic, split.partition) for split in fresh)
        return fresh

    async def describe(
        self, epoch: int, committables: Sequence[CommittableDocument]
    ) -> tuple[CommittableDocument, ...]:
        """The same committables, with the data that their commit needs. Raises as `open`, and ExternalError if one of
        them cannot be committed."""
        request = connector_messages.DescribeRequest(epoch=epoch, committables=tuple(committables))
        return (await self._ask_or_kill(request, self._times.commit_s)).committables

    async def commit(
        self, epoch: int, committables: Sequence[CommittableDocument], retries: Callable[[], bool] = lambda: False
    ) -> tuple[CommittableDocument, ...]:
        """Makes a complete epoch's output visible; a second call changes nothing. Returns the committables whose output
        is lost. Raises as `open`.

        retries   whether a transient error is to be retried; asked after each one
        """
        request = connector_messages.CommitRequest(epoch=epoch, committables=tuple(committables))
        return (await self._ask_again(request, retries)).committables

    async def fence(self, names: Mapping[str, Sequence[str]], retries: Callable[[], bool] = lambda: False) -> None:
        """Aborts open transactions under these names, by sink, and fences their writers. `retries`: as in `commit`.
        Raises as `open`."""
        await self._ask_again(
            connector_messages.FenceRequest(names={sink: tuple(own) for sink, own in names.items()}), retries
        )

    async def sweep(self, attempt: int) -> tuple[str, ...]:
        """Aborts open transactions of the job's attempts before this one, and returns their names. Raises as `open`."""
        return (await self._ask_or_kill(connector_messages.SweepRequest(attempt=attempt), self._times.commit_s)).names

    async def open_committers(self, pipeline: Mapping[str, Any]) -> None:
        """Opens only the committers: prepares no sink, and opens no enumerator. Raises as `open`."""
        request = connector_messages.OpenCommittersRequest(job=self._job, pipeline=dict(pipeline))
        await self._ask_or_kill(request, self._times.open_s)

    async def transactions(self) -> tuple[OpenTransaction, ...]:
        """The job's open transactions, as the external systems report them. Raises as `open`."""
        answer = await self._ask_or_kill(connector_messages.TransactionsRequest(), self._times.commit_s)
        return tuple(each.transaction() for each in answer.transactions)

    async def audit(self, sink: str, begin: Mapping[str, Any], timeout_ms: int) -> OutputSeen:
        """Reads more of a sink's output, for about `timeout_ms`; the first call starts at `begin`. Returns the totals
        of all calls. Raises as `open`."""
        request = connector_messages.AuditRequest(sink=sink, begin=dict(begin), timeout_ms=timeout_ms)
        answer = await self._ask_or_kill(request, self._times.commit_s)
        if answer.seen is None:
            raise self._empty_answer(request)
        return answer.seen.seen()

    async def letters(self, pipeline: Mapping[str, Any], asked: DeadLettersRequest) -> DeadLetterList:
        """Reads dead letters of a pipeline. Raises as `open`."""
        request = connector_messages.LettersRequest(pipeline=dict(pipeline), node=asked.node, limit=asked.limit)
        answer = await self._ask_or_kill(request, self._times.commit_s)
        if answer.letters is None:
            raise self._empty_answer(request)
        return answer.letters

    async def resend(self, pipeline: Mapping[str, Any], asked: RedriveRequest) -> Redriven:
        """Resends a node's dead letters. Raises as `open`."""
        request = connector_messages.ResendRequest(
            pipeline=dict(pipeline), node=asked.node, to=asked.to, limit=asked.limit, yes=asked.yes
        )
        answer = await self._ask_or_kill(request, self._times.commit_s)
        if answer.redriven is None:
            raise self._empty_answer(request)
        return answer.redriven

    async def close(self) -> None:
        """Closes the connectors and ends the process; kills it after `close_s`. Idempotent."""
        if not self._closing:
            self._closing = True
            try:
                async with asyncio.timeout(self._times.close_s):
                    await self._ask(connector_messages.CloseRequest(), self._times.close_s)
                    await self.died.wait()
            except (HeadraceError, TimeoutError):
                # the process is killed below: an error of its connectors has no consequence now
                pass
            finally:
                self._child.kill("killed: it did not close in time")
        await self.died.wait()
        await self._reading

    # ---- inside --------------------------------------------------------------------------------------------------

    async def _ask_again(
        self, request: connector_messages.Request, retries: Callable[[], bool]
    ) -> connector_messages.AnswerFrame:
        """As `_ask_or_kill`. Repeats the request after a transient error, as long as the process lives and `retries`
        returns True."""
        while True:
            try:
                return await self._ask_or_kill(request, self._times.commit_s)
            except HeadraceError as error:
                if not error.retry or self.died.is_set() or not retries():
                    raise
                LOG.warning("job %s: %s: %s; trying again", self._job, request.do, error.message)
                await asyncio.sleep(COMMIT_RETRY_S)
                if not retries():
                    raise

    async def _ask_or_kill(
        self, request: connector_messages.Request, timeout_s: float
    ) -> connector_messages.AnswerFrame:
        try:
            return await self._ask(request, timeout_s)
        except TimeoutError as cause:
            late = f"did not {request.do} within {timeout_s:g} s"
            self._child.kill(f"killed: it {late}")
            text = f"the connector host of job {self._job} {late}: it was ended"
            raise ExternalError(
                text, remedy="look at the brokers or stores of its sources and sinks", retry=True
            ) from cause

    async def _ask(self, request: connector_messages.Request, timeout_s: float) -> connector_messages.AnswerFrame:
        """The response. Raises the error that it contains, ExternalError if the process is gone, TimeoutError."""
        if self.died.is_set():
            raise self._gone()
        pending = _Pending(request, asyncio.get_running_loop().create_future())
        number = next(self._numbers)
        self._pending[number] = pending
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(
                    connector_messages.framed(connector_messages.RequestFrame(number=number, request=request))
                )
                await self._writer.drain()
                # shielded: a timeout ends only this wait, and the request stays in flight until the host responds
                answer = await asyncio.shield(pending.answer)
        except ConnectionError as cause:
            await self.died.wait()
            raise self._gone() from cause
        if answer.failure is not None:
            raise error_of(answer.failure)
        return answer

    async def _read(self) -> None:
        """Passes responses to their requests until the socket closes, then fails the requests that are in flight."""
        try:
            while True:
                head = await self._reader.readexactly(LENGTH_BYTES)
                length = decode_length(head, bytes_max=connector_messages.FRAME_BYTES_MAX)
                answer = connector_messages.AnswerFrame.model_validate_json(await self._reader.readexactly(length))
                pending = self._pending.pop(answer.number, None)
                if pending is not None and not pending.answer.done():
                    pending.answer.set_result(answer)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            self._writer.close()
            await asyncio.to_thread(_reap, self._child)
            self.reason = self._child.ending().reason
            self.died.set()
            for pending in self._pending.values():
                if not pending.answer.done():
                    pending.answer.set_exception(self._gone())
                    pending.answer.exception()
            self._pending.clear()

    def _empty_answer(self, request: connector_messages.Request) -> InternalError:
        return InternalError(
            f"the connector host of job {self._job} was asked to {request.do}, and its answer has no content",
            remedy="please report this",
        )

    def _gone(self) -> ExternalError:
        return ExternalError(f"the connector host of job {self._job} is gone: {self.reason}", retry=True)


def _started(job: str, environment: Mapping[str, str], log: Path | None, starter: Starter) -> SupervisedChild:
    """Starts a host process; waits for the template process if that is still starting. Raises OSError, and as
    `Starter.start`."""
    home = environment.get("HEADRACE_HOME", "")
    with open(log or os.devnull, "ab", opener=private_opener) as out:
        return SupervisedChild(
            starter,
            lambda fd: ProcessOrder(
                program=PROGRAM,
                # job and home are not used: they show in lists of processes
                arguments=(_ROLE, "--job", job, "--home", home, "--fd", str(fd)),
                environment=environment,
                stdout=out.fileno(),
                stderr=STDERR if log is None else out.fileno(),
                keep=(fd,),
            ),
        )


def _reap(child: SupervisedChild) -> None:
    """Waits for a process that has closed its socket; kills it after `LEAVING_S`."""
    if not child.wait(LEAVING_S):
        child.kill(f"killed: it did not leave {LEAVING_S:g} s after it had closed its socket")
        child.wait()


def _let_leave(started: asyncio.Future[SupervisedChild]) -> None:
    """Closes the socket of a child whose `start` was cancelled or failed, so that it exits."""
    if not started.cancelled() and started.exception() is None:
        started.result().connection.close()
