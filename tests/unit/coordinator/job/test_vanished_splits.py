"""A checkpoint without the position of a split that was read before is not recorded: its rows would be read twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.checkpoint.manifest import Manifest, SplitDocument, SubtaskDocument
from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.effects import WriteCheckpoint
from headrace.coordinator.job.events import SlotAcked, Tick
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.states.running import Running
from headrace.coordinator.job.states.transitions import STAY, ToRestarting
from headrace.core.source_state import SourceState, SplitState
from headrace.execution.plan_facts import PlanFacts
from headrace.spec.settings import Checkpoint
from support.storage.checkpoints import manifest

SOURCE = "flights"


def state(positions: Mapping[int, int]) -> SourceState:
    return SourceState(tuple(SplitState("t", partition, at) for partition, at in positions.items()))


def restored_job(restored: Manifest | None) -> Job:
    facts = PlanFacts("plan", 1, 128, {SOURCE: 1}, {SOURCE: "source"}, {SOURCE: 1})
    job = Job.accepted(
        JobConfig("j1", "flights", 1, lambda _: facts, "1.0", Checkpoint.model_validate({"interval": "10s"}))
    )
    job.restored = restored
    job.add_splits({SOURCE: tuple(SplitDocument(topic="t", partition=number, start=0) for number in (0, 1))})
    return job


def acked(before: Mapping[int, int] | None, now: Mapping[int, int]) -> tuple[object, list[object]]:
    """What follows an acknowledgement with these positions, and the effects."""
    restored = None if before is None else manifest(3).model_copy(update={"sources": {SOURCE: state(before)}})
    job = restored_job(restored)
    running = Running(Attempt(job, 0))
    running.on(job, Tick(), 20_000)
    job.effects.clear()
    document = SubtaskDocument(task=SOURCE, subtask=0, sources={SOURCE: state(now)})
    return running.on(job, SlotAcked(0, job.epoch, (document,)), 20_000), list(job.effects)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, {0: 4}),
        ({0: 4}, {0: 9}),
        ({0: 4}, {0: 9, 1: 2}),
        # partition 7 is no split of the job any more
        ({0: 4, 7: 3}, {0: 9}),
    ],
)
def test_a_checkpoint_with_all_that_was_read_is_recorded(
    before: Mapping[int, int] | None, now: Mapping[int, int]
) -> None:
    following, effects = acked(before, now)
    assert following is STAY
    assert [type(each) for each in effects] == [WriteCheckpoint]


def test_a_checkpoint_without_a_split_fails_the_attempt() -> None:
    following, effects = acked({0: 4, 1: 2}, {1: 2})
    assert isinstance(following, ToRestarting)
    assert not any(isinstance(each, WriteCheckpoint) for each in effects)
