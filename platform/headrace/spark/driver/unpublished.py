"""Folders of unpublished replays in checkpoint storage: their names, their owners, and the deletion of abandoned ones.

    <storage>/replay-<pipeline>-<key>-u<hex>/owner/<random>.json    {"host": .., "pid": .., "started": ..}

The owner is the process of the driver that staged the rows of a folder. While it runs, the folder must not be deleted;
in a notebook that may be weeks. The owner writes its file before all other files of the folder, and replaces it every
hour (`BEAT_S`) as a heartbeat. Another process on the same host checks whether the process in the file still runs
(`is_gone`). A process on another host cannot check that; it checks the age of the folder's newest file
(`SILENT_MAX_MS`).

Each unpublished replay has its own folder, so no later run continues one that a killed driver left. Several drivers may
delete abandoned folders at the same time: a second deletion of a file is harmless. The owner file is deleted last, so
that another driver can finish an interrupted deletion.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import defaultdict
from pathlib import Path

from pydantic import ValidationError

from headrace.checkpoint.manifest import Document
from headrace.checkpoint.paths import joined
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore, StoredObject
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError

OWNER = "owner/"
BEAT_S = 3_600.0
SILENT_MAX_MS = 7 * 24 * 3_600_000
"""Age of a folder's newest file, in ms, from which the folder is abandoned. An owner writes every hour; the rest is for
suspended hosts and differences between clocks."""
_PROC = Path("/proc")
_STARTED = 19
"""Index of the process's start time among the fields after the name in /proc/<pid>/stat."""
_HIDDEN = "?"


def unpublished_job(pipeline: str, key: str) -> str:
    """Returns the id of a replay that no later run continues."""
    return f"{replays_prefix(pipeline)}{key}-u{unique_part()}"


def replays_prefix(pipeline: str) -> str:
    """Returns the common prefix of the ids of a pipeline's replays."""
    return f"replay-{pipeline}-"


def unpublished_pattern(pipeline: str) -> str:
    """Returns a regular expression for the ids of a pipeline's unpublished replays."""
    return re.escape(replays_prefix(pipeline)) + "[0-9a-f]{8}-u[0-9a-f]{16}"


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


def remove_abandoned(storage: str, pipeline: str, now_ms: int) -> int:
    """Deletes the pipeline's folders without an owner. Returns their number. Raises ExternalError.

    storage: URL of checkpoint storage
    """
    store = open_store(storage)
    folders: defaultdict[str, list[StoredObject]] = defaultdict(list)
    pattern = re.compile(unpublished_pattern(pipeline))
    for each in store.objects(replays_prefix(pipeline)):
        folder = each.path.partition("/")[0]
        if pattern.fullmatch(folder):
            folders[folder].append(each)
    abandoned = [folder for folder, objects in folders.items() if _is_abandoned(store, objects, now_ms)]
    for folder in abandoned:
        _remove(store, folder, [each.path for each in folders[folder]])
    return len(abandoned)


def _is_abandoned(store: ObjectStore, objects: list[StoredObject], now_ms: int) -> bool:
    if now_ms - max(each.modified_ms for each in objects) > SILENT_MAX_MS:
        return True
    owners = [each.path for each in objects if each.path.partition("/")[2].startswith(OWNER)]
    for path in owners:
        try:
            owner = read_owner(store.read(path))
        except ObjectNotFoundError:
            return False  # the owner has just replaced this file by a newer one, or has deleted the folder
        if owner is None or not owner.is_gone:
            return False
    return bool(owners)


def _remove(store: ObjectStore, folder: str, paths: list[str]) -> None:
    # the owner file is deleted last: a folder without one counts as abandoned only after a week
    store.delete(sorted(paths, key=lambda path: path.startswith(f"{folder}/{OWNER}")))
    left = open_store(joined(store.url, folder))
    left.delete([each.path for each in left.leftovers()])
