"""What a seed makes of a driver's world: the command, and which faults happen."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sim.drivers.remote import Faults

FAULTS = ("another driver", "driver killed", "driver frozen", "storage away", "sink away", "stop asked", "given up")
_RARE = {"given up": 0.1}


@dataclass(frozen=True, slots=True)
class Story:
    """The frame of one run.

    bounded      a replay; else following
    stops        rows of each partition; None: it never ends
    pause_ms     mean time between two faults; chaos_ms: how long they happen
    treachery    how likely a driver is killed, or sleeps, between two effects
    unforeseen   how likely a call raises what nobody foresaw, before it is done or after that
    lost_tasks   how likely a computation fails; strays: how likely a task is tried twice
    """

    bounded: bool
    publish: bool
    savepoint: bool
    final: bool
    parallelism: int
    stops: tuple[int | None, ...]
    interval_ms: int
    retained: int
    increments_max: int | None
    failures_max: int
    faults: tuple[str, ...]
    pause_ms: int
    chaos_ms: int
    storage: Faults
    sink: Faults
    treachery: float
    unforeseen: float
    lost_tasks: float
    strays: float

    @property
    def ends(self) -> bool:
        """Whether the job comes to an end that is recorded, without being asked to."""
        return self.bounded or None not in self.stops


def story_of(chance: random.Random) -> Story:
    """Draws one: either everything befalls drivers, or they live long and storage is slow to do what it is asked."""
    story = _drawn(chance)
    if story.bounded or chance.random() < 0.6:
        return story
    slow = Faults(late=0.3)
    return replace(
        story,
        interval_ms=100,
        faults=(),
        chaos_ms=60_000,
        increments_max=None,
        failures_max=10,
        treachery=0.0,
        unforeseen=0.0,
        storage=slow,
    )


def _drawn(chance: random.Random) -> Story:
    bounded = chance.random() < 0.4
    ending = bounded or chance.random() < 0.6
    publish = not bounded or chance.random() < 0.85
    return Story(
        bounded=bounded,
        publish=publish,
        savepoint=chance.random() < 0.5,
        final=chance.random() < 0.5,
        parallelism=chance.randint(1, 3),
        stops=tuple(chance.randint(0, 60) if ending else None for _ in range(chance.randint(1, 3))),
        interval_ms=chance.choice([100, 1_000, 5_000]),
        retained=chance.choice([1, 1, 2, 3]),
        increments_max=None if chance.random() < 0.8 else chance.randint(1, 3),
        failures_max=0 if bounded else chance.choice([1, 10, 10]),
        faults=tuple(fault for fault in FAULTS if chance.random() < _RARE.get(fault, 0.6)),
        pause_ms=chance.choice([500, 2_000, 8_000]),
        chaos_ms=chance.choice([5_000, 20_000, 60_000]),
        storage=_faults(chance),
        sink=_faults(chance),
        treachery=chance.choice([0.0, 0.05, 0.2]),
        unforeseen=chance.choice([0.0, 0.0, 0.01, 0.05]),
        lost_tasks=chance.choice([0.0, 0.1]),
        strays=chance.choice([0.0, 0.3]),
    )


def _faults(chance: random.Random) -> Faults:
    if chance.random() < 0.4:
        return Faults()
    refused, unanswered = (chance.choice([0.0, 0.02, 0.1]) for _ in range(2))
    return Faults(refused=refused, unanswered=unanswered, late=chance.choice([0.0, 0.02, 0.1]))
