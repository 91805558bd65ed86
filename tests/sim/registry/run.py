"""Runs seeds of the registry's simulation: `python -m sim.registry.run --seeds 10000`; one's story: `--seed 7`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from sim.registry.home import Home
from sim.registry.story import story_of
from sim.seeds import command, told_at_failure
from sim.world import ViolationError, World

PATIENCE_MS = 600_000
"""So long after the last fault, every job is driven or has ended."""
LATE_MS = 60_000
"""So long what is under way may still arrive."""
MODULE = "sim.registry.run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed's story ended."""

    seed: int
    end: str
    jobs: int


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed):
        return _play(world, seed)


def _play(world: World, seed: int) -> Outcome:
    story = story_of(world.chance)
    world.tell(str(story))
    home = Home(world, story)
    world.again_and_again(story.wish_ms, home.wish)
    if story.faults:
        world.again_and_again(story.pause_ms, lambda: home.befall(world.chance.choice(story.faults)))
    world.run(story.chaos_ms)
    home.heal()
    # what is under way still arrives
    world.run(world.now_ms + LATE_MS)
    if not world.run(world.now_ms + PATIENCE_MS, lambda: home.is_settled or home.has_left):
        raise ViolationError(f"nothing is wrong any more, but {_standing(home)}")
    if not home.is_settled:
        # what a coordinator has left, the next one goes on with
        home.kill_coordinator()
        if not world.run(world.now_ms + PATIENCE_MS, lambda: home.is_settled):
            raise ViolationError(f"nothing is wrong any more, and another coordinator has begun, but {_standing(home)}")
    home.stop_all()
    world.run(world.now_ms + PATIENCE_MS, lambda: home.is_over and not home.coordinator.asked)
    home.auditor.over(home.coordinator)
    return Outcome(seed, "settled", len(home.auditor.known))


def _standing(home: Home) -> str:
    entries = home.coordinator.registry.jobs.values() if home.coordinator.started else ()
    return ", ".join(f"{entry.job} is {entry.phase}: {entry.why}" for entry in entries) or "there is no coordinator"


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
