"""Opens an elector, a locator, or the addresses that a worker dials, from a URL.

    file:///shared/folder             an election in a folder that all hosts mount
    zookeeper://host1,host2/path      an election in ZooKeeper
    kubernetes://namespace/name       an election by a Lease of a Kubernetes cluster
    yarn://name                       (locator only) the application of YARN of that name
    ledger+file:///shared/ledger      (locator only) the leader that is published beside a ledger
    HOST:PORT[,HOST:PORT ..]          (addresses only) coordinators without an election, dialled in turn

`HEADRACE_LEADER_LEASE` (10s): the silence of a leader after which another coordinator is elected.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from headrace.core.config import parse_duration_ms
from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Elector, Leader, Locator

LEASE_VARIABLE = "HEADRACE_LEADER_LEASE"
_LEASE_MS, _LEASE_MS_MIN = 10_000, 1_000
_ELECTIONS = ("file", "zookeeper", "kubernetes", "yarn")
_PUBLISHED = "ledger+"


def is_election(address: str) -> bool:
    """Whether the address names an election, and not a coordinator."""
    return urlsplit(address).scheme in _ELECTIONS or address.startswith(_PUBLISHED)


def open_elector(url: str, environment: Mapping[str, str]) -> Elector:
    """The elector of a coordinator; not started. Raises UserError."""
    lease_ms = lease_from(environment)
    match urlsplit(url).scheme:
        case "file":
            from headrace.leadership.file_election import FileElector

            return FileElector(shared_folder(url), lease_ms)
        case "zookeeper":
            from headrace.leadership.zookeeper_client import ZooKeeperAddress
            from headrace.leadership.zookeeper_election import ZooKeeperElector

            return ZooKeeperElector(ZooKeeperAddress.parsed(url), environment, lease_ms)
        case "kubernetes":
            from headrace.leadership.kubernetes_election import KubernetesElector, LeaseAddress

            return KubernetesElector(LeaseAddress.parsed(url), environment, lease_ms)
        case _:
            raise UserError(
                f"{url} names no election",
                remedy="write file:///shared/folder, zookeeper://HOST1,HOST2,HOST3/path or kubernetes://NAMESPACE/NAME",
            )


def open_locator(url: str, environment: Mapping[str, str]) -> Locator:
    """The locator for the leader of an election. Raises UserError."""
    match urlsplit(url).scheme:
        case "file":
            from headrace.leadership.file_election import FileLocator

            return FileLocator(shared_folder(url))
        case "zookeeper":
            from headrace.leadership.zookeeper_client import ZooKeeperAddress
            from headrace.leadership.zookeeper_election import ZooKeeperLocator

            return ZooKeeperLocator(ZooKeeperAddress.parsed(url), environment, lease_from(environment))
        case "kubernetes":
            from headrace.leadership.kubernetes_election import KubernetesLocator, LeaseAddress

            return KubernetesLocator(LeaseAddress.parsed(url), environment)
        case "yarn":
            from headrace.leadership.yarn_locator import YarnAddress, YarnLocator

            return YarnLocator(YarnAddress.parsed(url), environment)
        case scheme if scheme.startswith(_PUBLISHED):
            from headrace.leadership.published_leader import PublishedLeader

            return PublishedLeader(url)
        case _:
            raise UserError(f"{url} names no election")


def lease_from(environment: Mapping[str, str]) -> int:
    """The lease that the environment sets, in ms. Raises UserError."""
    text = environment.get(LEASE_VARIABLE)
    if not text:
        return _LEASE_MS
    try:
        lease_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UserError(f"{LEASE_VARIABLE}: {error}") from error
    if lease_ms < _LEASE_MS_MIN:
        raise UserError(f"{LEASE_VARIABLE} is {text!r}", remedy="write a duration of at least 1s, such as 10s")
    return lease_ms


def shared_folder(url: str) -> Path:
    """The folder of a file:// URL. Raises UserError."""
    parts = urlsplit(url)
    folder = Path(unquote(parts.path))
    if parts.netloc not in {"", "localhost"} or not folder.is_absolute() or folder == Path("/"):
        raise UserError(f"{url} names no folder", remedy="write file:///shared/folder, with three slashes")
    return folder


class Addresses(Protocol):
    """The coordinator's address, which may change. Thread-safe."""

    @property
    def may_move(self) -> bool:
        """Whether another coordinator may lead while this one still answers."""
        ...

    def next(self) -> str:
        """HOST:PORT of the control plane to dial now. Raises ExternalError if none is known."""
        ...

    def moved(self) -> str | None:
        """The address of a coordinator with a higher term than the one that `next` returned last, if there is one.

        Raises ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases connections. Idempotent."""
        ...


class FixedAddresses:
    """Addresses that are dialled in turn: of several coordinators one leads, and only that one listens."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self._dialled = 0
        self._lock = threading.Lock()

    @property
    def may_move(self) -> bool:
        """No: a leader that is over stops listening."""
        return False

    def next(self) -> str:
        """The address after the one before."""
        with self._lock:
            self._dialled += 1
            return self._addresses[(self._dialled - 1) % len(self._addresses)]

    def moved(self) -> str | None:
        """None."""
        return None

    def close(self) -> None:
        """Has nothing to release."""


class LeaderAddresses:
    """The address that the leader has published."""

    def __init__(self, locator: Locator, url: str) -> None:
        self._locator = locator
        self._url = url
        self._last: Leader | None = None

    @property
    def may_move(self) -> bool:
        """Yes: a leader may be cut off from the election, and not from this worker."""
        return True

    def next(self) -> str:
        """The leader's address."""
        found = self._locator.find()
        if found is None:
            raise ExternalError(f"no coordinator leads at {self._url}", remedy="start one with --ha", retry=True)
        self._last = found
        return found.control

    def moved(self) -> str | None:
        """The address of a later leader. A lower term may be published for moments, by one that was suspended."""
        found, last = self._locator.find(), self._last
        return None if found is None or last is None or found.term <= last.term else found.control

    def close(self) -> None:
        """Releases the locator."""
        self._locator.close()


def open_addresses(text: str, environment: Mapping[str, str]) -> Addresses:
    """The addresses of `HOST:PORT[,HOST:PORT ..]` or of an election's URL. Raises UserError."""
    if is_election(text):
        return LeaderAddresses(open_locator(text, environment), text)
    addresses = [each.strip() for each in text.split(",") if each.strip()]
    if not addresses:
        raise UserError(f"{text!r} is no address", remedy="write HOST:PORT, such as 127.0.0.1:7070")
    return FixedAddresses(addresses)
