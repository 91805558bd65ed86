"""The seeds of `sim.run`, in clusters whose workers are drained as well: jobs move from them after a checkpoint."""

from __future__ import annotations

import sys

from sim.run import Outcome, play_story
from sim.seeds import command, told_at_failure
from sim.world import World

MODULE = "sim.drained.run"
DRAINED_EVERY_MS = 20_000


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed):
        return play_story(world, seed, drained_every_ms=DRAINED_EVERY_MS)


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
