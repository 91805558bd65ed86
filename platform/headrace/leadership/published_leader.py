"""The leader's address as an object beside the ledger, for workers and clients that have no election to ask.

    ledger+file:///shared/ledger, ledger+s3://bucket/prefix     URL of the place
    <ledger>/leaders/00000042                                   the leader of term 42, put if absent

A system that runs one coordinator at a time, such as YARN, elects it. A coordinator that was replaced may still believe
in its term; its object has a lower number than that of the next leader, whose term is higher.
"""

from __future__ import annotations

import threading
import time

from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore
from headrace.core.errors import ExternalError
from headrace.leadership.elector import Leader

SCHEME = "ledger+"
FOLDER = "leaders/"
KEPT = 3
"""Addresses that stay: of the leader, and of those before it."""
LOOK_SECONDS = 2.0
"""An answer is repeated for this long: a list costs money at an object store."""


def published_url(ledger: str) -> str:
    """The URL of the place, for a ledger's URL or path."""
    return SCHEME + (ledger if "://" in ledger else f"file://{ledger}")


class PublishedLeader:
    """Publishes and finds the leader. Thread-safe."""

    def __init__(self, url: str) -> None:
        """url: as `published_url` returns it. Raises UserError."""
        self._url = url
        self._store: ObjectStore = open_store(url.removeprefix(SCHEME))
        self._lock = threading.Lock()
        self._last: Leader | None = None
        self._looked_s: float | None = None

    def publish(self, leader: Leader) -> None:
        """Publishes the address of a term. Raises ExternalError, also if another address has that term."""
        name = f"{FOLDER}{leader.term:08d}"
        if not self._store.put_if_absent(name, leader.encoded()):
            # an answer to this put may have been lost
            published = Leader.decoded(self._store.read(name), name)
            if published != leader:
                raise ExternalError(f"term {leader.term} has another leader: {published.url}")
        self._store.delete(self._store.list(FOLDER)[:-KEPT])

    def find(self) -> Leader | None:
        """The leader with the highest term; None: none has published its address. Raises ExternalError."""
        with self._lock:
            now_s = time.monotonic()
            if self._looked_s is None or now_s - self._looked_s >= LOOK_SECONDS:
                self._last = self._read()
                self._looked_s = now_s
            return self._last

    def close(self) -> None:
        """Has nothing to release."""

    def _read(self) -> Leader | None:
        names = self._store.list(FOLDER)
        if not names:
            return None
        try:
            return Leader.decoded(self._store.read(names[-1]), f"{self._url}/{names[-1]}")
        except ObjectNotFoundError:
            # deleted meanwhile: there are later ones
            return self._last
