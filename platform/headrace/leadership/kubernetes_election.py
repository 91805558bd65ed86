"""An election by a Lease of a Kubernetes cluster.

    kubernetes://NAMESPACE/NAME    kubernetes:///NAME: in the namespace of the pod, or of the kubeconfig's context

                    written: no Lease, no holder,                        another holder, or the lease has
                    or it was silent for a lease                         passed since the last renewal
           waiting ─────────────────────────────> elected ────────────────────────────────────────────> lost
                                                  │     ^                                                ^
      half a lease has passed since a renewal     v     │ renewed                                        │
                                                in doubt ────────────────────────────────────────────────┘

A write carries the version that was read before, and the API server rejects it if another one came first: of two
candidates one is elected, and a candidate that was deposed overwrites nothing of its successor. No clock is compared
with that of another host: a candidate measures how long it has seen the same renewal, and the holder counts its lease
from the moment before it sent the last renewal that succeeded.

Two threads: one sends requests, which may hang; the clock's thread publishes doubt and loss all the same.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.kubernetes.connection import (
    AlreadyExistsError,
    ConflictError,
    Connection,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    open_connection,
)
from headrace.kubernetes.documents import Collection, Document, Json
from headrace.kubernetes.ownership import MANAGED_BY, MANAGER, labelled
from headrace.leadership.candidacy.candidacy import LeaseWatch
from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Leader, Lost, not_elected
from headrace.leadership.lease_record import API, PLURAL, LeaseRecord, OwnerOfLease, new_lease, other_owner_of_lease

LOG = logging.getLogger("headrace.leadership")
SCHEME = "kubernetes://"
RENEWALS_PER_LEASE = 5
LOOK_SECONDS = 0.5
"""How often a candidate that waits reads the Lease."""
REQUESTS_PER_LEASE = 4
"""A request may take this part of a lease, so that one that hangs leaves time for others."""
REQUEST_SECONDS_MAX = 5.0
CONFLICTS_MAX = 4
"""How often a write is tried again at once because another writer came first."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class _Phase(Enum):
    WAITING = auto()
    ELECTED = auto()
    IN_DOUBT = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class LeaseAddress:
    """namespace: empty: the one of the pod, or of the kubeconfig's context."""

    namespace: str
    name: str

    @staticmethod
    def parsed(url: str) -> LeaseAddress:
        """The address in a URL. Raises UserError."""
        namespace, _, name = url.removeprefix(SCHEME).partition("/")
        if (namespace and not _NAMESPACE.fullmatch(namespace)) or not _NAME.fullmatch(name):
            raise UserError(
                f"{url} is no address of an election",
                remedy="write kubernetes://NAMESPACE/NAME-OF-THE-LEASE, or kubernetes:///NAME for the pod's namespace",
            )
        return LeaseAddress(namespace, name)


class _Lease:
    """Reads and writes the Lease. Thread-safe. A right that is missing is an error that may be retried if it was there
    before."""

    def __init__(self, address: LeaseAddress, environment: Mapping[str, str], request_s: float) -> None:
        self.connection: Connection = open_connection(environment)
        self.name = address.name
        self._namespace = address.namespace or self.connection.namespace
        self._leases = Collection(API, PLURAL, self._namespace)
        self._owner = OwnerOfLease.of(environment)
        self._request_s = request_s
        self._was_allowed = False

    def read(self) -> LeaseRecord | None:
        """The Lease as it is now; None: there is none. Raises ExternalError."""
        with self._allowed():
            try:
                return LeaseRecord.of(self.connection.get(self._leases, self.name, timeout_s=self._request_s))
            except NotFoundError:
                return None

    def write(self, document: Document) -> None:
        """Replaces the version that was read. Raises ConflictError if it is another one by now, or is gone: `document`
        has the version and the uid of what was read."""
        self._require_own(document)
        with self._allowed():
            self.connection.replace(self._leases, self.name, labelled(document), timeout_s=self._request_s)

    def create(self, document: Document) -> None:
        """Creates it, as what belongs to its owner if the environment names one. Raises AlreadyExistsError."""
        with self._allowed():
            if self._owner is not None:
                document = self._owner.own(self.connection, self._namespace, document, timeout_s=self._request_s)
            self.connection.create(self._leases, document, timeout_s=self._request_s)

    def require_rights(self, document: Document) -> None:
        """Raises ForbiddenError, which names the right, if the Lease may not be read, created or written. Changes
        nothing. Raises UserError for one of another program. document: a Lease that could be created."""
        connection, limit_s = self.connection, self._request_s
        record = self.read()
        if record is not None:
            self._require_own(record.document)
        # rights are checked first: an existing object is a conflict after that
        with contextlib.suppress(AlreadyExistsError):
            connection.create(self._leases, document, dry_run=True, timeout_s=limit_s)
        metadata: dict[str, Json] = {"name": self.name, "resourceVersion": "1"}
        with contextlib.suppress(ConflictError):
            connection.replace(
                self._leases, self.name, document | {"metadata": metadata}, dry_run=True, timeout_s=limit_s
            )

    def _require_own(self, document: Document) -> None:
        if owner := other_owner_of_lease(document):
            raise UserError(
                f"{self._leases.describe(self.name)} is not of this election: it belongs to {owner}",
                remedy=f"name another Lease, or give this one the label {MANAGED_BY}={MANAGER}",
            )

    @contextlib.contextmanager
    def _allowed(self) -> Iterator[None]:
        try:
            yield
        except (ForbiddenError, UnauthorizedError) as error:
            # seen: an API server that has just started refuses everybody until it has read the roles
            error.retry = self._was_allowed
            raise
        self._was_allowed = True

    def published(self) -> Leader | None:
        """The leader's address. Raises ExternalError."""
        record = self.read()
        return None if record is None else record.leader(self._leases.describe(self.name))


class KubernetesLocator:
    """Finds the leader by the Lease's annotation. Keeps what it found last for times when the API does not answer."""

    def __init__(self, address: LeaseAddress, environment: Mapping[str, str]) -> None:
        self._lease = _Lease(address, environment, REQUEST_SECONDS_MAX)
        self._last: Leader | None = None

    def find(self) -> Leader | None:
        """The leader that published its address last. Raises ExternalError if the API has never answered."""
        try:
            self._last = self._lease.published()
        except ExternalError:
            if self._last is None:
                raise
        return self._last

    def close(self) -> None:
        """Closes connections."""
        self._lease.connection.close()


class KubernetesElector:
    """A candidate. lease_ms: silence after which another candidate is elected; the Lease states it in whole seconds,
    rounded up, and candidates with another setting wait for what it states."""

    def __init__(self, address: LeaseAddress, environment: Mapping[str, str], lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._lease_s = lease_ms / 1_000
        self._request_s = min(self._lease_s / REQUESTS_PER_LEASE, REQUEST_SECONDS_MAX)
        self._lease = _Lease(address, environment, self._request_s)
        self._identity = f"{socket.gethostname()}-{secrets.token_hex(8)}"
        self._watch = LeaseWatch(lease_ms)
        self._on_event: Callable[[ElectorEvent], None] = lambda _event: None
        self._lock = threading.Lock()
        """Held while an event is published: their order is that of the phases."""
        self._closing = threading.Event()
        self._phase = _Phase.WAITING
        self._renewed_s = 0.0
        """Just before the last renewal that succeeded was sent."""
        self._leader: Leader | None = None
        self._threads = [
            threading.Thread(target=self._run, name="headrace-elector", daemon=True),
            threading.Thread(target=self._watch_clock, name="headrace-elector-clock", daemon=True),
        ]

    @property
    def lease_ms(self) -> int:
        """Silence after which another candidate is elected, in ms."""
        return self._lease_ms

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Begins the campaign. Raises ExternalError if the API does not answer or does not allow it to write the
        Lease; it may be called again then."""
        self._on_event = on_event
        self._lease.require_rights(new_lease(self._lease.name, self._identity, self._lease_ms, _now()))
        for thread in self._threads:
            thread.start()

    def is_elected(self) -> bool:
        """Whether the Lease names this candidate."""
        if not self._believes():
            return False
        record = self._lease.read()
        return record is not None and record.holder == self._identity

    def announce(self, leader: Leader) -> None:
        """Publishes the address in the Lease, by a write that fails if another candidate has written to it."""
        for _ in range(CONFLICTS_MAX):
            record = self._lease.read()
            if record is None or record.holder != self._identity or not self._believes():
                raise not_elected()
            with contextlib.suppress(ConflictError):
                self._lease.write(record.held_by(self._identity, self._lease_ms, _now(), leader))
                self._leader = leader
                return
        raise ExternalError("the Lease of the election is written to all the time by another program", retry=True)

    def find(self) -> Leader | None:
        """The leader that published its address last. Raises ExternalError."""
        return self._lease.published()

    def close(self) -> None:
        """Releases the Lease."""
        self._closing.set()
        begun = [each for each in self._threads if each.is_alive() and each is not threading.current_thread()]
        for thread in begun:
            # the requests that are under way, and those that release the Lease; a server that hangs has expired it
            thread.join(4 * self._request_s)
        self._lease.connection.close()

    # ---- in the thread of requests -----------------------------------------------------------------------------------

    def _run(self) -> None:
        renew_s, trouble = self._lease_s / RENEWALS_PER_LEASE, ""
        while not self._closing.is_set() and self._phase is not _Phase.LOST:
            pause_s = renew_s
            try:
                self._step()
                trouble = ""
            except HeadraceError as error:
                pause_s = renew_s / 2
                if trouble != str(error):
                    trouble = str(error)
                    LOG.warning("the election cannot be reached: %s", trouble)
            self._closing.wait(min(pause_s, LOOK_SECONDS) if self._phase is _Phase.WAITING else pause_s)
        # the API may have stood still, and the Lease may still name a candidate that has released it
        with contextlib.suppress(HeadraceError):
            self._release()

    def _step(self) -> None:
        """Reads the Lease, and writes it if it is this candidate's, or nobody's."""
        for _ in range(CONFLICTS_MAX):
            record = self._lease.read()
            if record is not None and record.holder not in {"", self._identity}:
                with self._lock:
                    self._lose("another coordinator holds the Lease")
                if self._phase is _Phase.LOST or not self._is_silent(record):
                    return
            begun_s = time.monotonic()
            # another writer may come first: a candidate, or a program that annotates the Lease
            with contextlib.suppress(ConflictError, AlreadyExistsError):
                self._write(record)
                self._renewed(begun_s)
                return

    def _write(self, record: LeaseRecord | None) -> None:
        if record is None:
            self._lease.create(new_lease(self._lease.name, self._identity, self._lease_ms, _now(), self._leader))
        else:
            self._lease.write(record.held_by(self._identity, self._lease_ms, _now(), self._leader))

    def _is_silent(self, record: LeaseRecord) -> bool:
        """Whether the holder has been silent for its lease. One that has woken up since the read is rejected."""
        self._watch.lease_ms = record.duration_ms or self._lease_ms
        return self._watch.has_expired(record.beat, time.monotonic_ns() // 1_000_000)

    def _renewed(self, begun_s: float) -> None:
        with self._lock:
            if self._phase is _Phase.LOST or time.monotonic() - begun_s >= self._lease_s:
                # suspended meanwhile: another candidate may have been elected since
                return
            self._renewed_s = begun_s
            if self._phase is not _Phase.ELECTED:
                self._phase = _Phase.ELECTED
                self._publish(Elected())

    def _release(self) -> None:
        for _ in range(CONFLICTS_MAX):
            record = self._lease.read()
            if record is None or record.holder != self._identity:
                return
            with contextlib.suppress(ConflictError):
                self._lease.write(record.released(_now()))
                return

    # ---- in the clock's thread ---------------------------------------------------------------------------------------

    def _watch_clock(self) -> None:
        pause_s = doubt_s = self._lease_s / 2
        while not self._closing.wait(pause_s) and self._phase is not _Phase.LOST:
            with self._lock:
                silent_s = time.monotonic() - self._renewed_s
                if not self._believes():
                    pause_s = doubt_s / 2
                elif silent_s >= self._lease_s:
                    self._lose("the Lease could not be renewed for its whole time")
                elif silent_s >= doubt_s:
                    if self._phase is _Phase.ELECTED:
                        self._phase = _Phase.IN_DOUBT
                        self._publish(InDoubt("the Lease could not be renewed for half of its time"))
                    pause_s = self._lease_s - silent_s
                else:
                    pause_s = doubt_s - silent_s

    # ---- in both -----------------------------------------------------------------------------------------------------

    def _believes(self) -> bool:
        return self._phase in {_Phase.ELECTED, _Phase.IN_DOUBT}

    def _lose(self, reason: str) -> None:
        """Ends the campaign of a candidate that was elected. Called with the lock held."""
        if self._believes():
            self._phase = _Phase.LOST
            self._publish(Lost(reason))

    def _publish(self, event: ElectorEvent) -> None:
        if not self._closing.is_set():
            self._on_event(event)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
