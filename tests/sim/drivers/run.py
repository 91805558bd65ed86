"""Runs seeds of the drivers' simulation: `python -m sim.drivers.run --seeds 10000`; one with its story: `--seed 7`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from sim.drivers.site import Site
from sim.drivers.story import story_of
from sim.seeds import command, told_at_failure
from sim.world import ViolationError, World

PATIENCE_MS = 600_000
"""So long after the last fault, the command must have come to its end, if it is given again where it fails."""
LATE_MS = 120_000
"""So long what is under way may still arrive."""
MODULE = "sim.drivers.run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed's story ended."""

    seed: int
    end: str
    epochs: int
    records: int


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed):
        return _play(world, seed)


def _play(world: World, seed: int) -> Outcome:
    story = story_of(world.chance)
    world.tell(str(story))
    site = Site(world, story)
    if story.faults:
        befall = partial(_befall, world, site)
        world.again_and_again(story.pause_ms, befall, lambda: site.is_over)
    world.run(story.chaos_ms, lambda: site.is_over)
    site.heal()
    if not world.run(world.now_ms + PATIENCE_MS, lambda: site.is_over):
        raise ViolationError("nothing is wrong any more, but the command does not come to its end")
    # what is under way still arrives: late calls, drivers that wake up, tasks of dead ones
    world.run(world.now_ms + LATE_MS)
    site.auditor.over(story.stops)
    end = f"{'replay' if story.bounded else 'follow'} {site.auditor.end}"
    return Outcome(seed, end, site.auditor.epoch, len(site.auditor.history))


def _befall(world: World, site: Site) -> None:
    site.befall(world.chance.choice(site.story.faults))


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
