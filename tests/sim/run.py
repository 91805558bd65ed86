"""Runs seeds: `python -m sim.run --seeds 10000 --from 0`; one seed with its whole story: `--seed 4711 --verbose`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass

from headrace.coordinator.job_state import JobState
from sim.cluster import Cluster
from sim.story import Story, story_of
from sim.world import Violation, World

PATIENCE_MS = 1_500_000
"""So long after the last fault, a job must have come to something: every timeout of the machine fits in it."""
STEADY_MS = 120_000
"""So often a checkpoint is complete in a healthy cluster, whatever its interval."""
SHOWN = 60
SHOWN_EVERY = 250


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed's story ended."""

    seed: int
    state: JobState
    attempts: int
    epochs: int


def play(seed: int, *, verbose: bool = False) -> Outcome:
    """One seed's story. Raises Violation, with the story's last lines as notes."""
    world = World(seed, verbose=verbose)
    try:
        return _play(world, seed)
    except AssertionError as error:
        error.add_note("\n".join(list(world.told)[-SHOWN:]))
        error.add_note(rerun(seed))
        raise


def rerun(seed: int) -> str:
    """How to see it again."""
    return f"again: PYTHONPATH=tests python -m sim.run --seed {seed} --verbose"


def _play(world: World, seed: int) -> Outcome:
    story = story_of(world.chance)
    world.tell(str(story))
    cluster = Cluster(world, story)
    _befall(world, cluster, story)
    world.run(story.chaos_ms, lambda: cluster.result is not None)
    cluster.heal()
    if cluster.result is None and None in story.stops:
        _require_running(world, cluster)
        cluster.stop()
        # a coordinator that is replaced just then refuses it: users ask again
        world.after(120_000, cluster.stop)
    if not world.run(world.now_ms + PATIENCE_MS, lambda: cluster.result is not None):
        raise Violation(f"nothing is wrong any more, but the job does not end: {_standing(cluster)}")
    assert cluster.result is not None, "it has ended"
    # what is under way still arrives: late commits, words of old slots
    world.run(world.now_ms + 120_000)
    cluster.auditor.ended(cluster.result)
    checkpoint = cluster.auditor.checkpoint
    epochs = 0 if checkpoint is None else checkpoint.manifest.epoch
    return Outcome(seed, cluster.result, cluster.auditor.attempt, epochs)


def _befall(world: World, cluster: Cluster, story: Story) -> None:
    """The next fault, and the one after that, until there is peace."""
    if not story.faults:
        return

    def again() -> None:
        if not world.calm and cluster.result is None:
            cluster.befall(world.chance.choice(story.faults))
            world.after(round(world.chance.expovariate(1 / story.pause_ms)), again)

    world.after(round(world.chance.expovariate(1 / story.pause_ms)), again)


def _require_running(world: World, cluster: Cluster) -> None:
    """The job comes to run, and its checkpoints are completed."""

    def steady() -> bool:
        endpoint = cluster.endpoint
        return cluster.result is not None or (endpoint is not None and endpoint.machine.state is JobState.RUNNING)

    if not world.run(world.now_ms + PATIENCE_MS, steady):
        raise Violation(f"nothing is wrong any more, but the job does not run: {_standing(cluster)}")
    before = len(cluster.auditor.history)
    world.run(world.now_ms + STEADY_MS, lambda: cluster.result is not None)
    wanted = cluster.story.checkpoint.interval_ms is not None and cluster.result is None
    if wanted and len(cluster.auditor.history) == before:
        raise Violation(f"the job runs, but no checkpoint is completed: {_standing(cluster)}")
    if wanted:
        cluster.auditor.require_all_known()


def _standing(cluster: Cluster) -> str:
    endpoint = cluster.endpoint
    if endpoint is None:
        return "there is no coordinator"
    due_ms = endpoint.machine.due_ms
    return f"{endpoint.name} has it {endpoint.machine.state.value} ({endpoint.machine.view.message}), due {due_ms}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first that fails")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="tell its story")
    wanted = parser.parse_args()
    if wanted.seed is not None:
        _say(f"{play(wanted.seed, verbose=wanted.verbose)}")
        return 0
    return _run(range(wanted.first, wanted.first + wanted.seeds), jobs=wanted.jobs, keep_going=wanted.keep_going)


def _run(seeds: range, *, jobs: int, keep_going: bool) -> int:
    begun = time.monotonic()
    failed: list[int] = []
    ends: Counter[str] = Counter()
    with multiprocessing.Pool(jobs) as pool:
        for count, (seed, end, trouble) in enumerate(pool.imap_unordered(_try, seeds, chunksize=8), start=1):
            if trouble:
                failed.append(seed)
                _say(f"seed {seed} fails: {trouble}")
                if not keep_going:
                    break
            ends[end] += 1
            if count % SHOWN_EVERY == 0 or count == len(seeds):
                rate = count / (time.monotonic() - begun)
                _say(f"{count} of {len(seeds)} seeds, {rate:.0f} a second, {len(failed)} failed, {dict(ends)}")
    for seed in failed:
        _say(rerun(seed))
    return 1 if failed else 0


def _try(seed: int) -> tuple[int, str, str]:
    """The seed, how its job ended, and what is wrong with that (empty: nothing)."""
    try:
        return seed, play(seed).state.value, ""
    except Exception as error:
        return seed, "wrong", f"{type(error).__name__}: {error}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
