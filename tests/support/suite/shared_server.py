"""What one server of a whole run is made of: started by the controller when a test first needs it, ended with the run.

Test processes ask for its address over a Unix socket, whose path they get before they start. Plugins (`shared_broker`,
`shared_hdfs`, `shared_kubernetes`) say what is started.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path

from support.suite.answering_socket import Answer, AnsweringSocket


class SharedServer(ABC):
    """The server, below the controller. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._undo = ExitStack()
        """What ends the server."""
        self._folder: Path | None = None
        self._socket: AnsweringSocket | None = None

    @abstractmethod
    def document(self) -> Answer:
        """What test processes find it by. Starts it at the first call."""

    @property
    def folder(self) -> Path:
        """A new temporary folder, with a short name: the path of a socket has at most 107 bytes."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
        return self._folder

    def listen(self) -> str:
        """Answers test processes from now on; returns the socket's path."""
        if self._socket is None:
            self._socket = AnsweringSocket(self.folder / "ask", self.document)
        return str(self.folder / "ask")

    def end(self) -> None:
        """Kills the server and removes everything of it."""
        if self._socket is not None:
            self._socket.close()
        with self._lock:
            self._undo.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
