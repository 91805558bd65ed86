"""The time that a slot may go on without a word of its supervisor."""

from __future__ import annotations

import time

NS_PER_MS = 1_000_000


class Lease:
    """Runs out `lease_ms` after the newest beat. Shared by threads without a lock: one writes, others read.

    A beat renews it from the moment when it was sent, not when it was read: Linux goes on counting CLOCK_MONOTONIC, one
    clock for all processes of the host, while a process is stopped, so a slot that was frozen and wakes to a pipe full
    of old beats knows that its time is over. `expired` costs a clock read: whoever is about to let rows out may ask it.
    """

    def __init__(self, lease_ms: int) -> None:
        self._lease_ns = lease_ms * NS_PER_MS
        self._until_ns = time.monotonic_ns() + self._lease_ns

    def renew(self, sent_ns: int) -> None:
        """Takes a beat that was sent at `sent_ns` (monotonic). A lease that has run out stays so."""
        now_ns = time.monotonic_ns()
        if now_ns < self._until_ns:
            self._until_ns = max(self._until_ns, min(sent_ns, now_ns) + self._lease_ns)

    def expired(self) -> bool:
        """Whether it has run out."""
        return time.monotonic_ns() >= self._until_ns
