"""Who a folder of staged rows belongs to that nobody publishes: the driver's process, which says so again and again.

    <storage>/replay-<pipeline>-<key>-u<hex>/owner/<random>.json    {"host": .., "pid": .., "started": ..}

Put before anything else is, and anew every hour: its time is a sign of life for those who cannot look at the process.
The folder lives as long as the driver wants its rows, which in a notebook may be weeks.
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from pydantic import ValidationError

from headrace.checkpoint.manifest import Document
from headrace.checkpoint.paths import unique_part
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.errors import ExternalError

OWNER = "owner/"
BEAT_S = 3_600.0
_PROC = Path("/proc")
_STARTED = 19
"""Which of the words behind the name in /proc/<pid>/stat says when a process began."""


_HIDDEN = "?"


class OwnerDocument(Document):
    """A process. host: where its number means something; started: in ticks since that host's start, for numbers are
    given out again. Both empty where the system does not tell."""

    host: str = ""
    pid: int
    started: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether it has surely ended: it was one of this host."""
        if not self.host or self.host != _host():
            return False
        return _started(self.pid) not in {self.started, _HIDDEN}


class Owner:
    """This process as the owner of a folder, from now until `release`. Another thread says so."""

    def __init__(self, store: ObjectStore, *, beat_s: float = BEAT_S) -> None:
        """Raises ExternalError."""
        self._store = store
        self._beat_s = beat_s
        self._document = OwnerDocument(host=_host(), pid=os.getpid(), started=_started(os.getpid()))
        self._path = self._put()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="headrace-owner", daemon=True)
        self._thread.start()

    def _put(self) -> str:
        path = f"{OWNER}{unique_part()}.json"
        self._store.write(path, self._document.model_dump_json().encode())
        return path

    def _beat(self) -> None:
        while not self._released.wait(self._beat_s):
            try:
                before, self._path = self._path, self._put()
                self._store.delete([before])
            except ExternalError:
                continue  # the next one may be heard again

    def release(self) -> None:
        """Says no more. Idempotent."""
        self._released.set()
        self._thread.join()


def read_owner(data: bytes) -> OwnerDocument | None:
    """An owner out of its file; None: it is none of this version."""
    try:
        return OwnerDocument.model_validate_json(data)
    except ValidationError:
        return None


def _host() -> str:
    """This host's start and, as containers have numbers of their own, whose numbers these are."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began; empty: there is none, or it has ended and was not waited for; `?`: it may not be seen."""
    try:
        words = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _HIDDEN if _is_there(pid) else ""
    return "" if words[0] == "Z" else words[_STARTED]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
