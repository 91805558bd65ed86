"""The connector host: a child process of the coordinator that holds one job's enumerators and committers.

    program headrace.coordinator.connector_host.main, arguments headrace-connector-host --job ID --home PATH --fd N

It is forked from a template that has called `preload`, or is a fresh interpreter (`headrace.processes`). It answers the
requests that arrive on the inherited socket N. Each source has a queue of requests with a thread of its own, and
all committers share another one. So a slow discovery never delays a commit. The process exits when the socket closes,
so it never outlives its coordinator. The next coordinator commits output that was decided but not committed by then.
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
from headrace.coordinator.connector_host.pipeline_letters import PipelineLetters
from headrace.core.concealing import conceal, conceal_standard_error
from headrace.core.network.frames import receive_frame
from headrace.execution import connector_messages
from headrace.execution.connectors import JobConnectors
from headrace.execution.format_preparation import prepare_formats
from headrace.execution.planning import plan_pipeline
from headrace.rpc.failure import failure_of
from headrace.spec.reading.read import hidden_in, pipeline_from_dict

ROLE = "headrace-connector-host"
QUEUE_MAX = 16
"""Requests that may wait in a queue; the coordinator sends one or a few at a time."""


class _RequestQueue:
    """A thread that answers its requests one after the other."""

    def __init__(self, host: _Host, name: str) -> None:
        self._host = host
        self._requests: queue.Queue[connector_messages.RequestFrame] = queue.Queue(QUEUE_MAX)
        threading.Thread(target=self._run, name=f"requests-{name}", daemon=True).start()

    def put(self, frame: connector_messages.RequestFrame) -> None:
        """Queues a request."""
        self._requests.put(frame)

    def _run(self) -> None:
        while True:
            frame = self._requests.get()
            self._host.answer(frame)


class _Host:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()
        self._job = JobConnectors()
        self._queues: dict[str, _RequestQueue] = {}

    def run(self) -> None:
        """Reads requests until the coordinator is gone or has sent a close."""
        while (frame := self._read()) is not None:
            name = queue_of(frame.request)
            if name not in self._queues:
                self._queues[name] = _RequestQueue(self, name)
            self._queues[name].put(frame)

    def answer(self, frame: connector_messages.RequestFrame) -> None:
        """Performs a request and sends its answer. Called by the queues' threads."""
        try:
            self._conceal(frame.request)
            answer = self._do(frame.number, frame.request)
        except BaseException as error:  # every failure becomes a response, so that its queue goes on
            answer = connector_messages.AnswerFrame(
                number=frame.number, failure=failure_of(error, node=_node(frame.request))
            )
        with self._writing, contextlib.suppress(OSError):  # the coordinator is gone, and needs no response
            self._connection.sendall(connector_messages.framed(answer))
        if isinstance(frame.request, connector_messages.CloseRequest):
            # the reading thread then reads the end of the stream, and `run` returns
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _conceal(self, request: connector_messages.Request) -> None:
        """Hides the variables of the job's pipeline in all that leaves this process. Each request has the same ones."""
        if isinstance(
            request,
            connector_messages.OpenRequest
            | connector_messages.OpenCommittersRequest
            | connector_messages.LettersRequest
            | connector_messages.ResendRequest,
        ):
            conceal(hidden_in(request.pipeline))

    def _do(self, number: int, request: connector_messages.Request) -> connector_messages.AnswerFrame:
        match request:
            case connector_messages.OpenRequest():
                plan = plan_pipeline(request.pipeline)
                formats = prepare_formats(plan, request.formats, sinks=request.sinks)
                opened = self._job.open(
                    plan,
                    request.job,
                    known=request.known,
                    foreign=request.foreign,
                    sinks=request.sinks,
                    accepted=request.accepted,
                )
                return connector_messages.AnswerFrame(
                    number=number, opened=opened, begins=self._job.begins(), formats=formats
                )
            case connector_messages.DiscoverRequest():
                return connector_messages.AnswerFrame(number=number, splits=self._job.discover(request.source))
            case connector_messages.DescribeRequest():
                return connector_messages.AnswerFrame(
                    number=number, committables=self._job.describe(request.committables)
                )
            case connector_messages.CommitRequest():
                return connector_messages.AnswerFrame(
                    number=number, committables=self._job.commit(request.committables)
                )
            case connector_messages.FenceRequest():
                self._job.fence(request.names)
            case connector_messages.SweepRequest():
                return connector_messages.AnswerFrame(number=number, names=self._job.sweep(request.attempt))
            case connector_messages.OpenCommittersRequest():
                self._job.open_committers(plan_pipeline(request.pipeline), request.job)
            case connector_messages.TransactionsRequest():
                there = tuple(connector_messages.TransactionDocument.of(each) for each in self._job.open_transactions())
                return connector_messages.AnswerFrame(number=number, transactions=there)
            case connector_messages.AuditRequest():
                seen = self._job.audit(request.sink, request.begin, request.timeout_ms)
                return connector_messages.AnswerFrame(number=number, seen=connector_messages.SeenDocument.of(seen))
            case connector_messages.LettersRequest():
                with PipelineLetters(pipeline_from_dict(request.pipeline)) as letters:
                    return connector_messages.AnswerFrame(
                        number=number, letters=letters.newest(request.node, request.limit)
                    )
            case connector_messages.ResendRequest():
                with PipelineLetters(pipeline_from_dict(request.pipeline)) as letters:
                    sent = letters.resend(request.node, request.to, request.limit, do=request.yes)
                return connector_messages.AnswerFrame(number=number, redriven=sent)
            case connector_messages.CloseRequest():
                self._job.close()
            case _:
                assert_never(request)
        return connector_messages.AnswerFrame(number=number)

    def _read(self) -> connector_messages.RequestFrame | None:
        try:
            data = receive_frame(self._connection.recv_into, bytes_max=connector_messages.FRAME_BYTES_MAX)
        except OSError:  # the coordinator died, perhaps in the middle of a frame
            return None
        return None if data is None else connector_messages.RequestFrame.model_validate_json(data)


def queue_of(request: connector_messages.Request) -> str:
    """Returns the queue of a request, which answers in order; the empty name is the committers' queue."""
    return request.source if isinstance(request, connector_messages.DiscoverRequest) else ""


def _node(request: connector_messages.Request) -> str | None:
    return request.source if isinstance(request, connector_messages.DiscoverRequest) else None


def preload() -> None:
    """Imports the modules that every job needs."""
    registry.load_bundled()


def main(arguments: Sequence[str]) -> None:
    """Runs until the coordinator closes the socket or is gone; never returns."""
    conceal_standard_error()
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=[ROLE])
    parser.add_argument("--fd", type=int, required=True)
    for name in ("--job", "--home"):
        parser.add_argument(name, required=True)
    given = parser.parse_args(arguments)
    # Ctrl-C signals every process of a terminal's group, but only the coordinator decides when this one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = 0
    try:
        _Host(socket.socket(fileno=given.fd)).run()
    except BaseException:  # the process's log contains the reason
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # a lane may hang in a client library, which would block a normal exit; nothing here needs a normal exit
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
