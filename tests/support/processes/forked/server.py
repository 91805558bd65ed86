"""Starts commands for one test process, and reports how they end.

A request is a JSON document with the command's stdout and stderr as descriptors; answers are JSON documents, one a
line: {"number", "pid"} or {"number", "error"}, and later {"number", "code"}.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from contextlib import suppress
from functools import partial

from headrace.core.errors import HeadraceError
from headrace.processes.child import Child
from headrace.processes.forking import METHOD_VARIABLE
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import Starter
from headrace.processes.template.client import own_starter
from support.processes.forked.program import PROGRAM, ROLE

REQUEST_BYTES_MAX = 1 << 20
REAP_SECONDS = 0.2


class Server:
    """Serves one connection until its other end closes."""

    def __init__(self, connection: socket.socket, starter: Starter) -> None:
        self._connection = connection
        self._starter = starter
        self._writing = threading.Lock()

    def run(self) -> None:
        """Returns when the test process is gone."""
        while True:
            while not select.select([self._connection], [], [], REAP_SECONDS)[0]:
                # collects orphans: tests look whether they are gone
                self._starter.ready()
            data, descriptors, _, _ = socket.recv_fds(self._connection, REQUEST_BYTES_MAX, 2)
            if not data:
                return
            self._start(json.loads(data), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, request: dict[str, object], descriptors: list[int]) -> None:
        environment: dict[str, str] = dict(request["environment"])  # type: ignore[call-overload]
        # the program takes it up, which for a starter is a reason not to fork
        path = environment.pop("PYTHONPATH", "")
        order = ProcessOrder(
            program=PROGRAM,
            arguments=(ROLE, str(request["folder"]), path, *request["arguments"]),  # type: ignore[misc]
            environment=environment,
            stdout=descriptors[0],
            stderr=descriptors[1],
        )
        try:
            child = self._starter.start(order)
        except HeadraceError as error:
            self._answer(number=request["number"], error=str(error))
            return
        self._answer(number=request["number"], pid=child.pid)
        threading.Thread(target=partial(self._report, request["number"], child), daemon=True).start()

    def _report(self, number: object, child: Child) -> None:
        self._answer(number=number, code=child.wait())

    def _answer(self, **answer: object) -> None:
        with self._writing, suppress(OSError):
            self._connection.sendall(json.dumps(answer).encode() + b"\n")


def main(descriptor: int) -> None:
    """Serves the connection with this descriptor."""
    os.environ.pop("PYTHONPATH", None)
    # the method is for the processes that commands start; the commands themselves are forked in any case
    os.environ.pop(METHOD_VARIABLE, None)
    starter = own_starter([PROGRAM])
    Server(socket.socket(fileno=descriptor), starter).run()
    starter.close()
    os._exit(0)
