"""A coordinator without an election: it leads at once."""

from __future__ import annotations

from collections.abc import Callable

from headrace.leadership.elector import Elected, ElectorEvent
from headrace.leadership.leader import Leader


class SoleElector:
    """The elector of a coordinator that has no standby. If another one takes over its ledger, it has been replaced all
    the same."""

    def __init__(self) -> None:
        self._leader: Leader | None = None

    @property
    def lease_ms(self) -> int:
        """0: there is nothing to wait for."""
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
        """Has nothing to give up."""
