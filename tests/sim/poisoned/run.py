"""The seeds of `sim.run`, in clusters where a row crashes each slot that reads it: the job ends for it, in time.

Neighbours of a slot that crashes lose their connections, and may report that first. Slots are killed from outside, too.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from sim.audit.poison import Poison
from sim.cluster import Cluster
from sim.run import Outcome, play_cluster
from sim.seeds import command, told_at_failure
from sim.story import story_of
from sim.world import World

MODULE = "sim.poisoned.run"
POSITION_MAX = 150
"""The highest position of such a row in a partition without end."""
_ENDS_JOBS = {"row cannot be read"}


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed):
        story = story_of(world.chance)
        # failures of headrace itself count, too, and would be taken for those of the row
        faults = tuple(each for each in story.faults if each not in _ENDS_JOBS)
        cluster = Cluster(world, replace(story, faults=faults, unforeseen=0.0))
        partition = world.between(0, len(story.stops) - 1)
        stop = story.stops[partition]
        if stop != 0:
            cluster.poison = Poison(partition, world.between(0, POSITION_MAX if stop is None else stop - 1))
        world.tell(f"{cluster.story}, {cluster.poison}")
        return play_cluster(cluster, seed)


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
