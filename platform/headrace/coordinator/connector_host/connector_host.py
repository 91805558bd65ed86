"""A job's connector host, as the coordinator sees it: a child process that holds enumerators and committers.

    driver ──open, discover, commit, close──> ConnectorHost ══socketpair══> coordinator.connector_host.main

Owns the process, the requests in flight and their deadlines. Knows nothing of connectors: documents go in and out. A
host that died is not revived: the driver starts another one and opens it with the splits it knows.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument
from headrace.client.output_models import DeadLetterList, DeadLettersRequest, Redriven, RedriveRequest
from headrace.connect.sink import OpenTransaction, OutputSeen
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.files.private_files import private_opener
from headrace.core.network.frames import LENGTH_BYTES, decode_length
from headrace.execution.connector_messages import (
    FRAME_BYTES_MAX,
    AnswerFrame,
    AuditRequest,
    CloseRequest,
    CommitRequest,
    DescribeRequest,
    DiscoverRequest,
    FenceRequest,
    LettersRequest,
    OpenCommittersRequest,
    OpenRequest,
    Request,
    RequestFrame,
    ResendRequest,
    SweepRequest,
    TransactionsRequest,
    framed,
)
from headrace.execution.discovered import DiscoveredSource
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.processes.supervised import SupervisedChild
from headrace.rpc.failure import error_of

__all__ = ["ConnectorHost", "DiscoveredSource", "HostTimes"]

PROGRAM = "headrace.coordinator.connector_host.main"
_ROLE = "headrace-connector-host"
STDERR = 2
LEAVING_S = 2.0
"""How long a process may take to end after it has closed its socket."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """How long a host may take to answer, in seconds. One that is late to open or commit is killed: its lane hangs."""

    open_s: float = 120.0
    discover_s: float = 60.0
    commit_s: float = 120.0
    close_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Pending:
    request: Request
    answer: asyncio.Future[AnswerFrame]


class ConnectorHost:
    """One host process of one job; used on one event loop. Calls may overlap."""

    def __init__(
        self,
        job: str,
        child: SupervisedChild,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        times: HostTimes,
    ) -> None:
        """Made by `start`."""
        self.died = asyncio.Event()
        """Set when the process is gone, for whatever reason; `reason` says it."""
        self.reason = ""
        self.begins: dict[str, dict[str, Any]] = {}
        """Sink -> where its output began outside when it was opened."""
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
        """Starts the process. `environment` comes on top of this process's; `log` gets what it prints; `starter`: else
        it is a fresh interpreter.

        Raises ExternalError where it cannot be started.
        """
        variables = os.environ | {"POLARS_MAX_THREADS": "1"} | dict(environment or {})
        # not asyncio's way: its child watcher and a kill would reap the process behind each other's back
        starting = asyncio.to_thread(_started, job, variables, log, starter or SpawnStarter())
        started = asyncio.ensure_future(starting)
        try:
            # shielded: a start that is under way goes on, and its child must learn that nobody wants it
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
    ) -> dict[str, DiscoveredSource]:
        """Prepares the sinks, opens enumerators and committers and finds the splits, by source.

        known     splits of an earlier start of this job: they keep their `start` and `stop`
        foreign   `known` is from another job (a savepoint): `stop` is resolved anew

        May be called again, with what is known then. No user code is needed here: connectors are installed packages,
        and planning imports no function of the user. Raises HeadraceError as the connectors do; ExternalError with
        `retry` where the process died or does not answer.
        """
        request = OpenRequest(
            job=self._job,
            pipeline=dict(pipeline),
            known={source: tuple(splits) for source, splits in known.items()},
            foreign=foreign,
        )
        answer = await self._ask_or_kill(request, self._times.open_s)
        self._known = {
            source: {(each.topic, each.partition) for each in found.splits} for source, found in answer.opened.items()
        }
        self.begins = answer.begins
        return answer.opened

    async def discover(self, source: str) -> tuple[SplitDocument, ...]:
        """Looks for splits that no answer has held before. Raises as `open`; a look that takes too long leaves the
        host as it is and is reported by ExternalError, as every further one until it is answered."""
        request = DiscoverRequest(source=source)
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
        """The same, with what it takes to commit them. Raises as `open`, and where one cannot be committed."""
        request = DescribeRequest(epoch=epoch, committables=tuple(committables))
        return (await self._ask_or_kill(request, self._times.commit_s)).committables

    async def commit(self, epoch: int, committables: Sequence[CommittableDocument]) -> tuple[CommittableDocument, ...]:
        """Makes a complete epoch's output visible; a second call changes nothing. Gives what is lost. Raises as
        `open`."""
        request = CommitRequest(epoch=epoch, committables=tuple(committables))
        return (await self._ask_or_kill(request, self._times.commit_s)).committables

    async def fence(self, names: Mapping[str, Sequence[str]]) -> None:
        """Ends what is open under these names, by sink, and shuts out who holds one. Raises as `open`."""
        request = FenceRequest(names={sink: tuple(own) for sink, own in names.items()})
        await self._ask_or_kill(request, self._times.commit_s)

    async def sweep(self, attempt: int) -> tuple[str, ...]:
        """Ends what is open and not of this attempt; gives the names. Raises as `open`."""
        return (await self._ask_or_kill(SweepRequest(attempt=attempt), self._times.commit_s)).names

    async def open_committers(self, pipeline: Mapping[str, Any]) -> None:
        """Opens the committers alone: nothing is prepared, and no source is looked at. Raises as `open`."""
        request = OpenCommittersRequest(job=self._job, pipeline=dict(pipeline))
        await self._ask_or_kill(request, self._times.open_s)

    async def transactions(self) -> tuple[OpenTransaction, ...]:
        """What is open outside. Raises as `open`."""
        answer = await self._ask_or_kill(TransactionsRequest(), self._times.commit_s)
        return tuple(each.transaction() for each in answer.transactions)

    async def audit(self, sink: str, begin: Mapping[str, Any], timeout_ms: int) -> OutputSeen:
        """Reads a sink's output on, from where it began, for about that long; gives all that was seen. Raises as
        `open`."""
        request = AuditRequest(sink=sink, begin=dict(begin), timeout_ms=timeout_ms)
        answer = await self._ask_or_kill(request, self._times.commit_s)
        assert answer.seen is not None, "an audit's answer says what was seen"
        return answer.seen.seen()

    async def letters(self, pipeline: Mapping[str, Any], asked: DeadLettersRequest) -> DeadLetterList:
        """Reads a pipeline's dead letters back. Raises as `open`."""
        request = LettersRequest(pipeline=dict(pipeline), node=asked.node, limit=asked.limit)
        answer = await self._ask_or_kill(request, self._times.commit_s)
        assert answer.letters is not None, "the answer holds the letters"
        return answer.letters

    async def resend(self, pipeline: Mapping[str, Any], asked: RedriveRequest) -> Redriven:
        """Sends a node's dead letters again. Raises as `open`."""
        request = ResendRequest(pipeline=dict(pipeline), node=asked.node, to=asked.to, limit=asked.limit, yes=asked.yes)
        answer = await self._ask_or_kill(request, self._times.commit_s)
        assert answer.redriven is not None, "the answer says what was sent"
        return answer.redriven

    async def close(self) -> None:
        """Closes the connectors and ends the process, by force where it takes too long. Idempotent."""
        if not self._closing:
            self._closing = True
            try:
                async with asyncio.timeout(self._times.close_s):
                    await self._ask(CloseRequest(), self._times.close_s)
                    await self.died.wait()
            except (HeadraceError, TimeoutError):
                # how the connectors close changes nothing any more
                pass
            finally:
                self._child.kill("killed: it did not close in time")
        await self.died.wait()
        await self._reading

    # ---- inside --------------------------------------------------------------------------------------------------

    async def _ask_or_kill(self, request: Request, timeout_s: float) -> AnswerFrame:
        try:
            return await self._ask(request, timeout_s)
        except TimeoutError as cause:
            late = f"did not {request.do} within {timeout_s:g} s"
            self._child.kill(f"killed: it {late}")
            text = f"the connector host of job {self._job} {late}: it was ended"
            raise ExternalError(
                text, remedy="look at the brokers or stores of its sources and sinks", retry=True
            ) from cause

    async def _ask(self, request: Request, timeout_s: float) -> AnswerFrame:
        """The answer. Raises the error in it, ExternalError where the process is gone, TimeoutError."""
        if self.died.is_set():
            raise self._gone()
        pending = _Pending(request, asyncio.get_running_loop().create_future())
        number = next(self._numbers)
        self._pending[number] = pending
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(framed(RequestFrame(number=number, request=request)))
                await self._writer.drain()
                # shielded: who gives up waiting leaves the lane's request in flight
                answer = await asyncio.shield(pending.answer)
        except ConnectionError as cause:
            await self.died.wait()
            raise self._gone() from cause
        if answer.failure is not None:
            raise error_of(answer.failure)
        return answer

    async def _read(self) -> None:
        """Hands out answers until the socket closes; then nobody waits for one any more."""
        try:
            while True:
                head = await self._reader.readexactly(LENGTH_BYTES)
                length = decode_length(head, bytes_max=FRAME_BYTES_MAX)
                answer = AnswerFrame.model_validate_json(await self._reader.readexactly(length))
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

    def _gone(self) -> ExternalError:
        return ExternalError(f"the connector host of job {self._job} is gone: {self.reason}", retry=True)


def _started(job: str, environment: Mapping[str, str], log: Path | None, starter: Starter) -> SupervisedChild:
    """A host; waits for a template where that is to come up first. Raises OSError and as `Starter.start`."""
    home = environment.get("HEADRACE_HOME", "")
    with open(log or os.devnull, "ab", opener=private_opener) as out:
        return SupervisedChild(
            starter,
            lambda fd: ProcessOrder(
                program=PROGRAM,
                # job and home are for lists of processes
                arguments=(_ROLE, "--job", job, "--home", home, "--fd", str(fd)),
                environment=environment,
                stdout=out.fileno(),
                stderr=STDERR if log is None else out.fileno(),
                keep=(fd,),
            ),
        )


def _reap(child: SupervisedChild) -> None:
    """Waits for a process that has closed its socket; kills it where it does not leave in time."""
    if not child.wait(LEAVING_S):
        child.kill(f"killed: it did not leave {LEAVING_S:g} s after it had closed its socket")
        child.wait()


def _let_leave(started: asyncio.Future[SupervisedChild]) -> None:
    """Closes the pipe of a child that nobody wants: it leaves."""
    if not started.cancelled() and started.exception() is None:
        started.result().connection.close()
