"""How far a computation on Spark is, told while it runs: by level, in words.

Spark's stages of a job, in the order of their numbers, are the levels: a stage is numbered after those that it reads
from, and keeps its number when it is run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

Tell = Callable[[str], None]
"""Takes a line that replaces the one before it; called from any thread."""

LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class StageState:
    """One stage of a job: tasks that are done, and all of them."""

    done: int
    tasks: int


def told(stages: Sequence[StageState | None]) -> str | None:
    """Where a job stands: at its last level that has begun and is not done. None: nothing is going on.

    stages   one for each level; None: not begun
    """
    begun = [(number, stage) for number, stage in enumerate(stages, start=1) if stage is not None]
    number, stage = next((each for each in reversed(begun) if each[1].done < each[1].tasks), (0, None))
    if stage is None:
        return None
    return f"level {number} of {len(stages)}: {stage.done}/{stage.tasks} tasks"


@contextmanager
def watched(context: SparkContext, group: str, levels: int, tell: Tell | None) -> Iterator[None]:
    """While inside, tells how far the job of this group is, whenever that has changed. tell None: to nobody."""
    if tell is None:
        yield
        return
    over = threading.Event()
    watching = threading.Thread(
        target=_watch, args=(context, group, levels, tell, over), name="spark-progress", daemon=True
    )
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _watch(context: SparkContext, group: str, levels: int, tell: Tell, over: threading.Event) -> None:
    before: str | None = None
    while not over.wait(LOOK_EVERY_S):
        try:
            now = told(_stages(context, group, levels))
        except Exception:
            return
        if now is not None and now != before:
            tell(now)
        before = now


def _stages(context: SparkContext, group: str, levels: int) -> list[StageState | None]:
    """The levels of the group's newest job."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    job = tracker.getJobInfo(max(jobs)) if jobs else None
    numbers = sorted(job.stageIds) if job is not None else []
    found = [tracker.getStageInfo(number) for number in numbers[:levels]]
    states = [None if each is None else StageState(each.numCompletedTasks, each.numTasks) for each in found]
    return states + [None] * (levels - len(states))
