"""Candidates of an election whose events a test takes one by one."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.leadership.elector import Elector, ElectorEvent, Leader
from support.patience import WAIT_SECONDS

LEASE_MS = 2_000
"""For candidates that have to lose or to supersede: what they watch is stopped on purpose."""
LONG_LEASE_MS = 30_000
ADDRESS = Leader("http://one:1", "one:2", 3)
LATER = Leader("http://two:1", "two:2", 9)


class Candidate:
    """An elector whose events a test takes one by one."""

    def __init__(self, elector: Elector) -> None:
        self.elector = elector
        self.events: queue.Queue[ElectorEvent] = queue.Queue()

    def campaign(self) -> Candidate:
        self.elector.campaign(self.events.put)
        return self

    def next(self) -> ElectorEvent:
        """The next event; waits for it."""
        return self.events.get(timeout=WAIT_SECONDS)


Make = Callable[..., Candidate]


@contextmanager
def candidates(make: Callable[[int], Elector]) -> Iterator[Make]:
    """Makes candidates of a lease, and closes them at the end."""
    made: list[Candidate] = []

    def another(lease_ms: int = LONG_LEASE_MS) -> Candidate:
        made.append(Candidate(make(lease_ms)))
        return made[-1]

    try:
        yield another
    finally:
        for each in made:
            each.elector.close()
