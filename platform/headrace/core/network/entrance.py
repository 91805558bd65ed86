"""Which callers may stand at a door before they have proven anything: few, and the idlest leaves first. Pure.

For each place that listens: the exchange of a slot, the control plane, REST.
"""

from __future__ import annotations

from typing import Generic, TypeVar

_Caller = TypeVar("_Caller")


class Entrance(Generic[_Caller]):
    """At most `room` callers at once. Takes no lock.

    One more takes the place of the oldest that has not even greeted, else of the oldest. So connections that a stranger
    holds open without a word keep nobody out.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        # dicts keep the order of arrival
        self._silent: dict[_Caller, None] = {}
        self._greeted: dict[_Caller, None] = {}

    def __len__(self) -> int:
        return len(self._silent) + len(self._greeted)

    def enter(self, caller: _Caller) -> _Caller | None:
        """Takes a caller in; returns the one that has to leave for it, if any."""
        leaves = None
        if len(self) >= self._room:
            leaves = next(iter(self._silent or self._greeted))
            self.leave(leaves)
        self._silent[caller] = None
        return leaves

    def greeted(self, caller: _Caller) -> None:
        """The caller has sent its greeting."""
        if caller in self._silent:
            del self._silent[caller]
            self._greeted[caller] = None

    def leave(self, caller: _Caller) -> None:
        """The caller is let in, or gone. Idempotent."""
        self._silent.pop(caller, None)
        self._greeted.pop(caller, None)
