"""The progress of a computation on Spark, level by level, as lines of text.

Spark's stages of a job, in the order of their ids, are the levels: a stage has a greater id than those that it reads
from, and keeps its id when it is run again.
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
"""Receives a line that replaces the one before it; called from any thread."""

LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class StageState:
    """One stage of a job: its finished tasks, and all of them."""

    done: int
    tasks: int


def told(stages: Sequence[StageState | None]) -> str | None:
    """Returns a job's progress: its last level that has begun and is not done. None: nothing runs.

    stages   one for each level; None: not begun
    """
    begun = [(number, stage) for number, stage in enumerate(stages, start=1) if stage is not None]
    number, stage = next((each for each in reversed(begun) if each[1].done < each[1].tasks), (0, None))
    if stage is None:
        return None
    return f"level {number} of {len(stages)}: {stage.done}/{stage.tasks} tasks"


@contextmanager
def watched(context: SparkContext, group: str, levels: int, tell: Tell | None) -> Iterator[None]:
    """Reports the progress of this group's job whenever it changes, until the context ends. tell None: reports
    nothing.
    """
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
            # an error of Spark's status tracker ends the progress, not the job
            now = told(_stages(context, group, levels))
        except Exception:
            return
        if now is not None and now != before:
            tell(now)
        before = now


def _stages(context: SparkContext, group: str, levels: int) -> list[StageState | None]:
    """Returns the levels of the group's newest job."""
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    job = tracker.getJobInfo(max(jobs)) if jobs else None
    numbers = sorted(job.stageIds) if job is not None else []
    found = [tracker.getStageInfo(number) for number in numbers[:levels]]
    states = [None if each is None else StageState(each.numCompletedTasks, each.numTasks) for each in found]
    return states + [None] * (levels - len(states))
