"""The connector host: a child process of the coordinator that holds one job's enumerators and committers.

    program headrace.coordinator.host.process, arguments headrace-connector-host --job ID --home PATH --fd N

It is forked from a template that has called `preload`, or is a fresh interpreter (`headrace.processes`). It answers the
requests that come over the inherited socket N. Each source has a thread of its own, and so have the committers: a slow
look for splits never delays a commit. It ends when the socket closes, so that it never outlives its coordinator: output
that was decided but not committed then is the next coordinator's to commit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import assert_never

from headrace.connect import registry
from headrace.coordinator.output.dead_letters import PipelineLetters
from headrace.execution.connector_messages import (
    LENGTH_BYTES,
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
    length_of,
)
from headrace.execution.connectors import HostedJob
from headrace.rpc.failure import failure_of
from headrace.spec.reading.read import pipeline_from_dict

ROLE = "headrace-connector-host"
LANE_MAX = 16
"""Requests that wait in a lane; the coordinator sends one at a time, or few."""


class _Lane:
    """A thread that answers its requests one after the other."""

    def __init__(self, host: _Host, name: str) -> None:
        self._host = host
        self._requests: queue.Queue[RequestFrame] = queue.Queue(LANE_MAX)
        threading.Thread(target=self._run, name=f"lane-{name}", daemon=True).start()

    def put(self, frame: RequestFrame) -> None:
        """A request behind those that wait."""
        self._requests.put(frame)

    def _run(self) -> None:
        while True:
            frame = self._requests.get()
            self._host.answer(frame)


class _Host:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()
        self._job = HostedJob()
        self._lanes: dict[str, _Lane] = {}

    def run(self) -> None:
        """Reads requests until the coordinator is gone or has said close."""
        while (frame := self._read()) is not None:
            lane = lane_of(frame.request)
            if lane not in self._lanes:
                self._lanes[lane] = _Lane(self, lane)
            self._lanes[lane].put(frame)

    def answer(self, frame: RequestFrame) -> None:
        """Does what is asked and says how it went. Called by the lanes' threads."""
        try:
            answer = self._do(frame.number, frame.request)
        except BaseException as error:  # the shell of a lane: every failure is an answer
            answer = AnswerFrame(number=frame.number, failure=failure_of(error, node=_node(frame.request)))
        with self._writing, contextlib.suppress(OSError):  # without a reader nobody waits for it
            self._connection.sendall(framed(answer))
        if isinstance(frame.request, CloseRequest):
            # the reading thread sees the end of the input and leaves
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _do(self, number: int, request: Request) -> AnswerFrame:
        match request:
            case OpenRequest():
                opened = self._job.open(request)
                return AnswerFrame(number=number, opened=opened, begins=self._job.begins())
            case DiscoverRequest():
                return AnswerFrame(number=number, splits=self._job.discover(request.source))
            case DescribeRequest():
                return AnswerFrame(number=number, committables=self._job.describe(request.committables))
            case CommitRequest():
                return AnswerFrame(number=number, committables=self._job.commit(request.committables))
            case FenceRequest():
                self._job.fence(request.names)
            case SweepRequest():
                return AnswerFrame(number=number, names=self._job.sweep(request.attempt))
            case OpenCommittersRequest():
                self._job.open_committers(request)
            case TransactionsRequest():
                return AnswerFrame(number=number, transactions=self._job.open_transactions())
            case AuditRequest():
                return AnswerFrame(number=number, seen=self._job.audit(request))
            case LettersRequest():
                with PipelineLetters(pipeline_from_dict(request.pipeline)) as letters:
                    return AnswerFrame(number=number, letters=letters.newest(request.node, request.limit))
            case ResendRequest():
                with PipelineLetters(pipeline_from_dict(request.pipeline)) as letters:
                    sent = letters.resend(request.node, request.to, request.limit, do=request.yes)
                return AnswerFrame(number=number, redriven=sent)
            case CloseRequest():
                self._job.close()
            case _:
                assert_never(request)
        return AnswerFrame(number=number)

    def _read(self) -> RequestFrame | None:
        head = self._exactly(LENGTH_BYTES)
        data = None if head is None else self._exactly(length_of(head))
        return None if data is None else RequestFrame.model_validate_json(data)

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                part = self._connection.recv(min(count - len(data), 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)


def lane_of(request: Request) -> str:
    """Requests of one lane are answered in turn; the empty one is that of the committers."""
    return request.source if isinstance(request, DiscoverRequest) else ""


def _node(request: Request) -> str | None:
    return request.source if isinstance(request, DiscoverRequest) else None


def preload() -> None:
    """Imports what every job needs."""
    registry.load_bundled()


def main(arguments: Sequence[str]) -> None:
    """Runs until the coordinator is gone; never returns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=[ROLE])
    parser.add_argument("--fd", type=int, required=True)
    for name in ("--job", "--home"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(arguments)
    # Ctrl-C goes to all processes of a terminal; when to end is the coordinator's to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = 0
    try:
        _Host(socket.socket(fileno=given.fd)).run()
    except BaseException:  # the shell of a process: what ends it is told, in the log of the host
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # lanes may hang in a client library: nothing in here needs an orderly end
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
