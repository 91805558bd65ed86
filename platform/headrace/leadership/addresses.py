"""Where a worker dials its coordinator: fixed addresses in turn, or those of the leader of an election."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Locator
from headrace.leadership.leader import Leader
from headrace.leadership.opening import is_election, open_locator


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
