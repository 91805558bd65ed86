"""Runs seeds of the leaders' simulation: `python -m sim.leaders.run --seeds 10000`; one's story: `--seed 7`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from headrace.coordinator.store import ledger_store
from headrace.coordinator.store.ledger_store import LedgerStore
from headrace.core.clock import SystemClock
from sim.drivers.storage import DriversStore
from sim.leaders.cluster import Cluster
from sim.leaders.coordinator import LEDGER
from sim.leaders.story import story_of
from sim.replayed import Replayer
from sim.seeds import command, told_at_failure
from sim.world import ViolationError, World

PATIENCE_MS = 300_000
"""So long after the last fault, one coordinator leads."""
LATE_MS = 120_000
"""So long what is under way may still arrive."""
MODULE = "sim.leaders.run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed's story ended."""

    seed: int
    end: str
    terms: int
    jobs: int


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed), pytest.MonkeyPatch.context() as patch:
        story = story_of(world.chance)
        patch.setattr(ledger_store, "RECORDS_MAX", story.records_max)
        world.tell(str(story))
        cluster = Cluster(world, story)
        world.again_and_again(story.wish_ms, cluster.wish)
        if story.faults:
            world.again_and_again(story.pause_ms, lambda: cluster.befall(world.chance.choice(story.faults)))
        world.run(story.chaos_ms)
        cluster.heal()
        world.run(world.now_ms + LATE_MS)
        if not world.run(world.now_ms + PATIENCE_MS, lambda: cluster.is_settled):
            raise ViolationError(f"nothing is wrong any more, and {len(cluster.leaders())} coordinators lead")
        _compare(cluster)
        return Outcome(seed, "settled", len(cluster.auditor.terms), len(cluster.auditor.accepted))


def _compare(cluster: Cluster) -> None:
    """The ledger as another coordinator would read it, with what users were told."""
    (leader,) = cluster.leaders()
    cluster.auditor.compare(leader)
    objects = DriversStore(LEDGER, cluster.objects, lambda call: call(), Replayer())
    read = LedgerStore(objects, "reader", SystemClock()).load()
    if (read.head, read.jobs) != (leader.ledger.head, leader.ledger.jobs):
        raise ViolationError(f"the ledger ends at {read.head}, and for {leader.name} at {leader.ledger.head}")


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
