"""Lets test processes ask the controller, over a Unix socket, for something that it has once for all of them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from headrace.core.errors import ExternalError, HeadraceError
from support.patience import WAIT_SECONDS

Answer = Mapping[str, object]


class AnsweringSocket:
    """Answers one process after the other in a thread of its own, which lives until `close`.

    path: has at most 107 bytes. answer: its failure is raised where it was asked for.
    """

    def __init__(self, path: Path, answer: Callable[[], Answer]) -> None:
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, name=f"answering-{path.name}", daemon=True).start()

    def close(self) -> None:
        """Answers nobody any more."""
        # a thread in accept() does not notice that the socket is closed
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return  # closed
            with asking, suppress(OSError):
                asking.sendall(json.dumps(self._answer_or_error()).encode())

    def _answer_or_error(self) -> Answer:
        try:
            return self._answer()
        except (HeadraceError, AssertionError) as error:
            return {"error": str(error)}


def asked(path: str) -> Answer:
    """The controller's answer. Raises ExternalError if there is none to be had."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(WAIT_SECONDS)
        asking.connect(path)
        with asking.makefile("rb") as answers:
            answer: Answer = json.loads(answers.read())
    if "error" in answer:
        raise ExternalError(str(answer["error"]))
    return answer
