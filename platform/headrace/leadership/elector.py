"""The contracts of leadership: an elector selects the coordinator that may try to lead and publishes its address
(`Leader`), a locator finds the leader.

             Elected                InDoubt
    waiting ────────> may lead ──────────────> in doubt
                        │   <──────────────────  │
                        │         Elected        │
                        └───────> Lost <─────────┘

Two coordinators may believe for moments that they were elected: clocks stop, messages are late. An election decides
nothing. The ledger decides: each leader's first record replaces the one before (`coordinator.ledger`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from headrace.core.errors import ExternalError

LEADER_HEADER = "X-Headrace-Leader"
"""In the answers of a coordinator that handled nothing: the URL of the leader, empty if it is unknown."""

FORWARDED_HEADER = "X-Headrace-Forwarded"
"""In a request that a standby forwards: which one. It is not forwarded again."""
STANDBY_HEADER = "X-Headrace-Standby"
"""In a request for a leader's health: the standby that shows itself."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A coordinator that leads.

    url      URL of its REST API
    control  HOST:PORT of its control plane
    term     number of the ledger's record with which it took over: a later leader has a higher one
    """

    url: str
    control: str
    term: int

    def encoded(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decoded(data: bytes, place: str) -> Leader:
        """Inverse of `encoded`. place: named in errors. Raises ExternalError."""
        try:
            found = json.loads(data)
            return Leader(str(found["url"]), str(found["control"]), int(found["term"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ExternalError(
                f"{place} does not hold the address of a coordinator",
                remedy="another program may have written it: give the election a place of its own",
            ) from error


@dataclass(frozen=True, slots=True)
class Elected:
    """This coordinator may try to lead; after `InDoubt`: it still may."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The election cannot be reached. Another coordinator may be elected once `Elector.lease_ms` has passed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Another coordinator may lead now. The last event of a campaign, which gives up the candidacy."""

    reason: str


ElectorEvent = Elected | InDoubt | Lost


def not_elected() -> ExternalError:
    """The error for an announcement of a candidate that is not elected any more. Its `Lost` is on the way."""
    return ExternalError("this coordinator is not elected any more", retry=True)


class Locator(Protocol):
    """Finds the leader. Thread-safe."""

    def find(self) -> Leader | None:
        """The coordinator that leads, as last published; None: none has been. Raises ExternalError."""
        ...

    def close(self) -> None:
        """Releases connections. Idempotent."""
        ...


class Elector(Locator, Protocol):
    """The candidacy of one coordinator."""

    @property
    def lease_ms(self) -> int:
        """How long a candidate may be silent before another one is elected."""
        ...

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Begins the campaign. `on_event` is called in a thread of the elector, and must not block.

        Raises UserError for a wrong configuration, and ExternalError, after which it may be called again.
        """
        ...

    def is_elected(self) -> bool:
        """Asks the election whether this candidate is elected now. It may lose that at any moment: the ledger decides.
        Thread-safe. Raises ExternalError."""
        ...

    def announce(self, leader: Leader) -> None:
        """Publishes the address of this coordinator, which was elected. Raises ExternalError, also if it is not elected
        any more: then the address of the next leader stays."""
        ...

    def close(self) -> None:
        """Gives up the candidacy: another coordinator is elected at once. Idempotent."""
        ...


class SoleElector:
    """The elector of a coordinator without an election: it leads at once. Another coordinator with its ledger replaces
    it nevertheless."""

    def __init__(self) -> None:
        self._leader: Leader | None = None

    @property
    def lease_ms(self) -> int:
        """0: no candidate waits for this one."""
        return 0

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Is elected at once."""
        on_event(Elected())

    def is_elected(self) -> bool:
        """Always."""
        return True

    def announce(self, leader: Leader) -> None:
        """Keeps the address."""
        self._leader = leader

    def find(self) -> Leader | None:
        """This coordinator, once it leads."""
        return self._leader

    def close(self) -> None:
        """Does nothing: there is no candidacy."""
