"""The lease of a slot: how long it may continue without a heartbeat of its supervisor."""

from __future__ import annotations

import os
import time

LEASE_EXPIRED = 70
"""Exit code of a slot whose lease has expired."""
NS_PER_MS = 1_000_000


class Lease:
    """Expires `lease_ms` after the newest beat. Shared by threads without a lock: one writes, others read.

    A beat renews the lease from the time when it was sent, not when it was read. CLOCK_MONOTONIC is one clock for all
    processes of the host, and continues while a process is stopped. So a slot that was frozen and finds a pipe full of
    old beats knows that its lease has expired. `expired` costs one clock read, cheap enough before every write.
    """

    def __init__(self, lease_ms: int) -> None:
        self._lease_ns = lease_ms * NS_PER_MS
        self._until_ns = time.monotonic_ns() + self._lease_ns

    def renew(self, sent_ns: int) -> None:
        """Renews the lease by a beat that was sent at `sent_ns` (monotonic). An expired lease stays expired."""
        now_ns = time.monotonic_ns()
        if now_ns < self._until_ns:
            self._until_ns = max(self._until_ns, min(sent_ns, now_ns) + self._lease_ns)

    def expired(self) -> bool:
        """Whether the lease has expired."""
        return time.monotonic_ns() >= self._until_ns

    def exit_if_expired(self) -> None:
        """Ends this process if the lease has expired."""
        if self.expired():
            os._exit(LEASE_EXPIRED)

    def watch(self) -> None:
        """Ends this process once the lease has expired. Never returns; to be run in a thread of its own."""
        every_s = min(max(self._lease_ns / NS_PER_MS / 20 / 1_000, 0.01), 0.5)
        while True:
            self.exit_if_expired()
            time.sleep(every_s)
