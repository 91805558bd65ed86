"""The owner of a folder of unpublished, staged rows: the driver's process, which renews its claim periodically.

    <storage>/replay-<pipeline>-<key>-u<hex>/owner/<random>.json    {"host": .., "pid": .., "started": ..}

The owner file is written before anything else, and again every hour: its time shows other hosts, which cannot check the
process, that the owner lives. The folder lives as long as the driver needs its rows, which in a notebook may be weeks.
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
"""Index of the process's start time among the fields after the name in /proc/<pid>/stat."""


_HIDDEN = "?"


class OwnerDocument(Document):
    """A process. host: where its pid is valid; started: in ticks since that host's start, because pids are reused. Both
    are empty if the system does not report them.
    """

    host: str = ""
    pid: int
    started: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether it has surely ended: only known on its own host."""
        if not self.host or self.host != _host():
            return False
        return _started(self.pid) not in {self.started, _HIDDEN}


class Owner:
    """This process as the owner of a folder, until `release`. Another thread renews the file."""

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
                # the new file first: in between, the folder must not be without an owner
                before, self._path = self._path, self._put()
                self._store.delete([before])
            except ExternalError:
                continue  # storage is unreachable: the next renewal may succeed

    def release(self) -> None:
        """Stops renewing. Idempotent."""
        self._released.set()
        self._thread.join()


def read_owner(data: bytes) -> OwnerDocument | None:
    """Returns the owner in a file, or None if another version wrote it."""
    try:
        return OwnerDocument.model_validate_json(data)
    except ValidationError:
        return None


def _host() -> str:
    """Identifies this host's boot and pid namespace: containers count their pids on their own."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Returns when a process began. Empty: there is none, or it is a zombie; `?`: it may not be inspected."""
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
