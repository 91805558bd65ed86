"""An election in a folder that all coordinators share: a lock that dies with its process, and a lease above it.

    <folder>/leader.lock   locked (flock) by the candidate that was elected
    <folder>/leader.json   its beat, replaced several times within a lease, and its address once it leads

    waiting ── locked ───────────────────────────────────> elected ── the name has another file ──> lost
       └────── the beat is the same for a whole lease:        ^
               a new file is locked and gets the name  ───────┘

The system releases the lock when its process dies, so the next candidate is elected within half a second. A process
that is suspended, or whose host is cut off, keeps its lock; after a lease without a beat a candidate puts a locked file
of its own in the place of that one. The one that wakes up finds another file under the name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.leadership.candidacy.candidacy import LeaseWatch
from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Leader, Lost, not_elected

LOG = logging.getLogger("headrace.leadership")
LOCK, LEADER = "leader.lock", "leader.json"
BEATS_PER_LEASE = 5
LOOK_SECONDS = 0.5
"""How often a candidate that waits tries the lock."""
JOIN_SECONDS = 5.0


class FileLocator:
    """Finds the leader by the file that it publishes."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LEADER

    def find(self) -> Leader | None:
        """The leader that published its address last."""
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ExternalError(f"{self._file} cannot be read: {error.strerror}", retry=True) from error
        published = _document(data, self._file).get("leader")
        return None if published is None else Leader.decoded(json.dumps(published).encode(), str(self._file))

    def close(self) -> None:
        """Has nothing to release."""


class FileElector(FileLocator):
    """A candidate. folder: shared by all of them, private to their user; lease_ms: silence after which another
    candidate is elected."""

    def __init__(self, folder: Path, lease_ms: int) -> None:
        super().__init__(folder)
        self._folder = folder
        self._lock_file = folder / LOCK
        self._lease_ms = lease_ms
        self._watch = LeaseWatch(lease_ms)
        self._token = secrets.token_hex(8)
        self._beats = 0
        self._leader: Leader | None = None
        self._lock: int | None = None
        """Descriptor of the locked file; None: not elected."""
        self._doubt_s: float | None = None
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lease_ms(self) -> int:
        """Silence after which another candidate is elected, in ms."""
        return self._lease_ms

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Begins the campaign in a thread. Raises ExternalError if the folder cannot be made."""
        try:
            make_private_folder(self._folder)
        except OSError as error:
            raise ExternalError(
                f"{self._folder} cannot be made: {error.strerror}", remedy="mount the folder that coordinators share"
            ) from error
        self._thread = threading.Thread(target=self._run, args=(on_event,), name="headrace-elector", daemon=True)
        self._thread.start()

    def is_elected(self) -> bool:
        """Whether the lock's name still belongs to the file that this candidate has locked."""
        lock = self._lock
        try:
            return lock is not None and self._holds_name(lock)
        except OSError as error:
            raise ExternalError(f"{self._folder} cannot be read: {error.strerror}", retry=True) from error

    def announce(self, leader: Leader) -> None:
        """Publishes the address with the next beat, which is made now."""
        if not self.is_elected():
            raise not_elected()
        self._leader = leader
        try:
            self._beat()
        except OSError as error:
            raise ExternalError(f"{self._file} cannot be written: {error.strerror}", retry=True) from error

    def close(self) -> None:
        """Releases the lock."""
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            # a mount that hangs must not keep the process: the lock dies with it
            self._thread.join(JOIN_SECONDS)

    def _run(self, on_event: Callable[[ElectorEvent], None]) -> None:
        beat_s = self._lease_ms / BEATS_PER_LEASE / 1_000
        try:
            while not self._closing.is_set():
                event = self._step()
                if event is not None:
                    on_event(event)
                if isinstance(event, Lost):
                    return
                self._closing.wait(min(beat_s, LOOK_SECONDS) if self._lock is None else beat_s)
        finally:
            self._release()

    def _step(self) -> ElectorEvent | None:
        """Tries to be elected, or beats; returns what has changed."""
        try:
            if self._lock is None:
                if not (self._is_free() or self._is_superseded()):
                    return None
                self._beat()
                return Elected()
            if not self._holds_name(self._lock):
                return Lost("another coordinator has taken its place in the election")
            self._beat()
        except OSError as error:
            return self._on_trouble(error)
        if self._doubt_s is None:
            return None
        self._doubt_s = None
        return Elected()

    def _on_trouble(self, error: OSError) -> ElectorEvent | None:
        reason = f"{self._folder}: {error.strerror or error}"
        if self._lock is None:
            LOG.warning("the election cannot be reached: %s", reason)
            return None
        now_s = time.monotonic()
        if self._doubt_s is None:
            self._doubt_s = now_s
            return InDoubt(reason)
        # by then another candidate, which reaches the folder, may have been elected
        return Lost(reason) if now_s - self._doubt_s >= self._lease_ms / 1_000 else None

    def _is_free(self) -> bool:
        """Locks the file, if nobody else has."""
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        if _locked(descriptor) and self._holds_name(descriptor):
            self._lock = descriptor
            return True
        os.close(descriptor)
        return False

    def _is_superseded(self) -> bool:
        """Puts a locked file in the place of one whose holder is silent."""
        if not self._watch.has_expired(self._read_beat(), time.monotonic_ns() // 1_000_000):
            return False
        part = self._folder / f".{LOCK}.{self._token}"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        _locked(descriptor)
        # two candidates may do this at the same time: the file of the later one has the name, and the other one loses
        part.replace(self._lock_file)
        self._lock = descriptor
        return True

    def _holds_name(self, descriptor: int) -> bool:
        """Whether the lock's name still belongs to the file that is open."""
        own = os.fstat(descriptor)
        try:
            named = self._lock_file.stat()
        except FileNotFoundError:
            return False
        return (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)

    def _read_beat(self) -> bytes | None:
        try:
            return self._file.read_bytes()
        except FileNotFoundError:
            return None

    def _beat(self) -> None:
        with self._writing:
            self._beats += 1
            leader = None if self._leader is None else json.loads(self._leader.encoded())
            beat = {"candidate": self._token, "beat": self._beats, "leader": leader or self._published()}
            replace_file(self._file, json.dumps(beat).encode(), mode=PRIVATE_FILE)

    def _published(self) -> object:
        """The last leader's address stays until this coordinator leads, so that its clients still find it meanwhile."""
        data = self._read_beat()
        try:
            return None if data is None else _document(data, self._file).get("leader")
        except ExternalError:
            return None  # it is replaced now

    def _release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _document(data: bytes, place: Path) -> dict[str, object]:
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ExternalError(f"{place} is no record of an election", remedy="another program may have written it")
    return document
