"""Bounds the callers that have not authenticated yet, and chooses which one to close for a new one. Pure.

Every listener has one: the exchange of a slot, the control plane, REST.
"""

from __future__ import annotations

from typing import Generic, TypeVar

_Caller = TypeVar("_Caller")


class Entrance(Generic[_Caller]):
    """At most `room` unauthenticated callers at once. Not thread-safe: the caller serializes calls.

    A further caller displaces the oldest caller that has sent nothing, otherwise the oldest caller. So silent
    connections of an unauthenticated client cannot exclude other clients.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        # dicts keep the order of arrival
        self._silent: dict[_Caller, None] = {}
        self._greeted: dict[_Caller, None] = {}

    def __len__(self) -> int:
        return len(self._silent) + len(self._greeted)

    def enter(self, caller: _Caller) -> _Caller | None:
        """Admits a caller; returns the one to close in its place, if any."""
        leaves = None
        if len(self) >= self._room:
            leaves = next(iter(self._silent or self._greeted))
            self.leave(leaves)
        self._silent[caller] = None
        return leaves

    def greeted(self, caller: _Caller) -> None:
        """Records that the caller has sent its greeting."""
        if caller in self._silent:
            del self._silent[caller]
            self._greeted[caller] = None

    def leave(self, caller: _Caller) -> None:
        """Removes a caller that is authenticated or gone. Idempotent."""
        self._silent.pop(caller, None)
        self._greeted.pop(caller, None)
