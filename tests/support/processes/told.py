"""A process that runs `support.processes.told_program`, and the socket over which a test tells it what to do."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.processes.child import Child
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import Starter
from support.processes.running import WAIT_SECONDS
from support.processes.told_program import PROGRAM, ROLE


class Told:
    """Started, and known to run, once this is made. `log` is in `folder`."""

    def __init__(self, starter: Starter, folder: Path, arguments: Sequence[str] = (), **environment: str) -> None:
        ours, theirs = socket.socketpair()
        self.log = folder / "log"
        with theirs, self.log.open("ab") as log:
            number = theirs.fileno()
            order = ProcessOrder(
                program=PROGRAM,
                arguments=(ROLE, "--fd", str(number), *arguments),
                environment=os.environ | environment,
                stdout=log.fileno(),
                stderr=log.fileno(),
                keep=(number,),
            )
            try:
                self.child: Child = starter.start(order)
            except BaseException:
                ours.close()
                raise
        self._ours = ours
        self._lines = ours.makefile("rw", encoding="utf-8")
        # from here on it shows its own command line, not its template's
        self.ask("hello")

    def tell(self, *words: object) -> None:
        """Says it; what it answers is not waited for."""
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()

    def ask(self, *words: object) -> Any:
        """Its answer."""
        self.tell(*words)
        return json.loads(self._lines.readline())

    def close(self) -> None:
        """It ends, for nobody will tell it anything any more. Idempotent."""
        with suppress(OSError):
            self._lines.close()
        self._ours.close()

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.child.wait(WAIT_SECONDS)
