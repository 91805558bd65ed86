"""What a seed makes of a cluster with standbys: how often things fail, and which faults happen."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sim.drivers.remote import Faults

FAULTS = (
    "leader killed",
    "coordinator killed",
    "leader suspended",
    "coordinator suspended",
    "leader cut from election",
    "leader cut from storage",
    "election stands still",
    "storage away",
    "clock jumps",
    "worker cut",
)
SLOW_MS_MAX = 30_000


@dataclass(frozen=True, slots=True)
class Story:
    """The frame of one run.

    coordinators, workers, names   how many there are
    pause_ms    mean time between two faults; wish_ms: between two wishes of users
    chaos_ms    how long faults happen
    lease_ms    of sessions in the election
    trust       a client believes in its session for so many times that, as it does where a server shortens it or where
                clocks differ: nothing that was answered may depend on it
    records_max records after a snapshot until the next one
    storage     how calls of the ledger fail
    slow        how likely a call of the ledger arrives late at storage, up to `SLOW_MS_MAX`
    treachery   how likely a coordinator is suspended, or cut off from the election, while such a call is on its way
    """

    coordinators: int
    workers: int
    names: int
    faults: tuple[str, ...]
    pause_ms: int
    wish_ms: int
    chaos_ms: int
    lease_ms: int
    trust: int
    records_max: int
    storage: Faults
    slow: float
    treachery: float


def story_of(chance: random.Random) -> Story:
    """Draws one."""
    return Story(
        coordinators=chance.randint(2, 3),
        workers=chance.randint(1, 2),
        names=chance.randint(2, 6),
        faults=tuple(name for name in FAULTS if chance.random() < 0.7),
        pause_ms=chance.choice([2_000, 8_000, 25_000]),
        wish_ms=chance.choice([300, 1_500, 5_000]),
        chaos_ms=chance.choice([30_000, 120_000, 300_000]),
        lease_ms=chance.choice([3_000, 10_000]),
        trust=chance.choice([1, 1, 5]),
        records_max=chance.choice([2, 5, 20]),
        storage=Faults(
            refused=chance.choice([0.0, 0.02, 0.1]),
            unanswered=chance.choice([0.0, 0.02, 0.1]),
            late=chance.choice([0.0, 0.02, 0.1]),
        ),
        slow=chance.choice([0.0, 0.03, 0.15]),
        treachery=chance.choice([0.0, 0.3, 1.0]),
    )
