"""What a seed makes of a home: how many names, how often things fail, and which faults happen."""

from __future__ import annotations

import random
from dataclasses import dataclass

FAULTS = (
    "coordinator killed",
    "coordinator leaves",
    "storage away",
    "storage hangs",
    "storage hopeless",
    "job store full",
    "master breaks",
    "driver finishes",
    "driver fails",
    "replaced from elsewhere",
)
WISHES = ("submit", "submit", "cancel", "cancel", "stop", "stop", "stop", "look")


@dataclass(frozen=True, slots=True)
class Story:
    """The frame of one run.

    names        that users give to their jobs
    pause_ms     mean time between two faults; wish_ms: between two wishes of users
    chaos_ms     how long faults happen
    refused, unanswered   how likely the job store fails without effect, or with it
    duplicates   how likely a user allows a duplicate
    unprepared   how likely a submission fails before it is stored
    undriven     how likely a driver cannot be started
    once         how likely a job's master is replaced by no other (`restart: none`)
    treachery    how likely the coordinator dies just when the job store has done something
    """

    names: int
    faults: tuple[str, ...]
    pause_ms: int
    wish_ms: int
    chaos_ms: int
    refused: float
    unanswered: float
    duplicates: float
    unprepared: float
    undriven: float
    once: float
    treachery: float


def story_of(chance: random.Random) -> Story:
    """Draws one."""
    return Story(
        names=chance.randint(1, 4),
        faults=tuple(name for name in FAULTS if chance.random() < 0.6),
        pause_ms=chance.choice([2_000, 8_000, 25_000]),
        wish_ms=chance.choice([500, 3_000, 10_000]),
        chaos_ms=chance.choice([30_000, 120_000, 300_000]),
        refused=chance.choice([0.0, 0.05, 0.3]),
        unanswered=chance.choice([0.0, 0.05, 0.3]),
        duplicates=chance.choice([0.0, 0.2]),
        unprepared=chance.choice([0.0, 0.1]),
        undriven=chance.choice([0.0, 0.05, 0.3]),
        once=chance.choice([0.0, 0.2]),
        treachery=chance.choice([0.0, 0.02, 0.1]),
    )
