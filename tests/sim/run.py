"""Runs seeds: `python -m sim.run --seeds 10000 --from 0`; one seed with its whole story: `--seed 4711 --verbose`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from headrace.coordinator.job.job_state import JobState
from sim.cluster import Cluster
from sim.seeds import command, told_at_failure
from sim.story import story_of
from sim.world import ViolationError, World

PATIENCE_MS = 1_500_000
"""So long after the last fault, a job must have come to something: every timeout of the machine fits in it."""
STEADY_MS = 120_000
"""So often a checkpoint is complete in a healthy cluster, whatever its interval."""
MODULE = "sim.run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed's story ended."""

    seed: int
    state: JobState
    attempts: int
    epochs: int

    @property
    def end(self) -> str:
        """For counts of many."""
        return self.state.value


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises ViolationError, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    with told_at_failure(world, MODULE, seed):
        return play_story(world, seed)


def play_story(world: World, seed: int, *, drained_every_ms: int | None = None) -> Outcome:
    """The story in a world. drained_every_ms: how often a worker is to end, on average; None: never, so that seeds tell
    the stories that they told before there was such a thing."""
    story = story_of(world.chance)
    world.tell(str(story))
    return play_cluster(Cluster(world, story), seed, drained_every_ms=drained_every_ms)


def play_cluster(cluster: Cluster, seed: int, *, drained_every_ms: int | None = None) -> Outcome:
    """The same, in a cluster. A row that crashes slots is mended when the job has had its time to end for it."""
    world, story = cluster.world, cluster.story
    if story.faults:
        befall = partial(_befall, world, cluster)
        world.again_and_again(story.pause_ms, befall, lambda: cluster.result is not None)
    if drained_every_ms is not None:
        world.again_and_again(drained_every_ms, cluster.drain_worker, lambda: cluster.result is not None)
    world.run(story.chaos_ms, lambda: cluster.result is not None)
    cluster.heal()
    if cluster.poison is not None:
        _require_poison_ends(world, cluster)
    if cluster.result is None and None in story.stops:
        _require_running(world, cluster)
        cluster.stop()
        # a coordinator that is replaced just then refuses it: users ask again
        world.after(120_000, cluster.stop)
    if not world.run(world.now_ms + PATIENCE_MS, lambda: cluster.result is not None):
        raise ViolationError(f"nothing is wrong any more, but the job does not end: {_standing(cluster)}")
    assert cluster.result is not None, "it has ended"
    # what is under way still arrives: late commits, words of old slots
    world.run(world.now_ms + 120_000)
    cluster.auditor.ended(cluster.result)
    checkpoint = cluster.auditor.checkpoint
    epochs = 0 if checkpoint is None else checkpoint.manifest.epoch
    return Outcome(seed, cluster.result, cluster.auditor.attempt, epochs)


def _befall(world: World, cluster: Cluster) -> None:
    cluster.befall(world.chance.choice(cluster.story.faults))


def _require_poison_ends(world: World, cluster: Cluster) -> None:
    """A job with an end reads the row or is at its end. One without may move on elsewhere between any two crashes."""
    if (
        not world.run(world.now_ms + PATIENCE_MS, lambda: cluster.result is not None)
        and None not in cluster.story.stops
    ):
        raise ViolationError(f"nothing but a row is wrong, but the job does not end: {_standing(cluster)}")
    cluster.poison = None


def _require_running(world: World, cluster: Cluster) -> None:
    """The job comes to run, and its checkpoints are completed."""

    def steady() -> bool:
        endpoint = cluster.endpoint
        return cluster.result is not None or (endpoint is not None and endpoint.machine.state is JobState.RUNNING)

    if not world.run(world.now_ms + PATIENCE_MS, steady):
        raise ViolationError(f"nothing is wrong any more, but the job does not run: {_standing(cluster)}")
    before = len(cluster.auditor.history)
    world.run(world.now_ms + STEADY_MS, lambda: cluster.result is not None)
    wanted = cluster.story.checkpoint.interval_ms is not None and cluster.result is None
    if wanted and len(cluster.auditor.history) == before:
        raise ViolationError(f"the job runs, but no checkpoint is completed: {_standing(cluster)}")
    if wanted:
        cluster.auditor.require_all_known()


def _standing(cluster: Cluster) -> str:
    endpoint = cluster.endpoint
    if endpoint is None:
        return "there is no coordinator"
    due_ms = endpoint.machine.due_ms
    return f"{endpoint.name} has it {endpoint.machine.state.value} ({endpoint.machine.view.message}), due {due_ms}"


if __name__ == "__main__":
    sys.exit(command(MODULE, __doc__ or "", play))
