"""Shows whether the owner of a folder with unpublished, staged rows is alive. The owner is the process of the driver
that staged them. While it runs, the folder must not be deleted; in a notebook that may be weeks.

    <storage>/replay-<pipeline>-<key>-u<hex>/owner/<random>.json    {"host": .., "pid": .., "started": ..}

The owner writes this file before all other files of the folder, and replaces it every hour (`BEAT_S`) as a heartbeat.
Another process on the same host checks whether the process in the file still runs (`is_gone`). A process on another
host cannot check that; it checks the age of the folder's newest file (`abandoned.SILENT_MAX_MS`).
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from pydantic import ValidationError

from headrace.checkpoint.manifest import Document
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError

OWNER = "owner/"
BEAT_S = 3_600.0
_PROC = Path("/proc")
_STARTED = 19
"""Index of the process's start time among the fields after the name in /proc/<pid>/stat."""


_HIDDEN = "?"


class OwnerDocument(Document):
    """The owner process.

    host      the host, its boot and the pid namespace in which `pid` is valid; empty if the system does not report them
    started   the start of the process, in clock ticks since the host's boot, because pids are reused; empty as above
    """

    host: str = ""
    pid: int
    started: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended. False on other hosts, which cannot know."""
        if not self.host or self.host != _host():
            return False
        return _started(self.pid) not in {self.started, _HIDDEN}


class Owner:
    """Makes this process the owner of a folder, until `release`. A thread replaces the owner file every `beat_s`."""

    def __init__(self, store: ObjectStore, *, beat_s: float = BEAT_S) -> None:
        """Writes the owner file. Raises ExternalError."""
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
                # the new file is written before the old one is deleted, so that the folder always has an owner file
                before, self._path = self._path, self._put()
                self._store.delete([before])
            except ExternalError:
                continue  # storage is unreachable: tried again after the next `beat_s`

    def release(self) -> None:
        """Stops the heartbeat; the owner file stays. Idempotent."""
        self._released.set()
        self._thread.join()


def read_owner(data: bytes) -> OwnerDocument | None:
    """Returns the owner in a file, or None if another version wrote it."""
    try:
        return OwnerDocument.model_validate_json(data)
    except ValidationError:
        return None


def _host() -> str:
    """Returns an id of this host, its boot and its pid namespace, because each container may have its own pids. Empty
    if the system does not report them."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Returns the start time of a process. Empty: it does not exist, or is a zombie; `?`: it cannot be inspected."""
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
