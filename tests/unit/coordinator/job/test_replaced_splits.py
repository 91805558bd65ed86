"""A split whose log the user has accepted in place of another one: it begins at its start, and the others go on."""

from __future__ import annotations

from headrace.checkpoint.manifest import SplitDocument
from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.effects import Send
from headrace.coordinator.job.job import Job
from headrace.core.source_state import SourceState, SplitState
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.deployment import ASSIGNED_SPLITS
from headrace.rpc.messages import AssignSplits
from headrace.spec.settings import Checkpoint
from support.storage.checkpoints import manifest

SOURCE = "flights"


def test_another_log_of_a_known_split_replaces_it_and_begins_at_its_start() -> None:
    """The enumerator returns another identity only if the user has accepted the log; none on one side is the same."""

    def split(partition: int, start: int, identity: str) -> SplitDocument:
        return SplitDocument(topic="t", partition=partition, start=start, identity=identity)

    before = tuple(split(number, 3, "" if number == 2 else "c/1") for number in range(3))
    positions = tuple(SplitState("t", number, 40 + number) for number in range(3))
    checkpoint = manifest(3).model_copy(
        update={"sources": {SOURCE: SourceState(positions)}, "splits": {SOURCE: before}}
    )
    facts = PlanFacts("plan", 1, 128, {SOURCE: 1}, {SOURCE: "source"}, {SOURCE: 1})
    job = Job.accepted(
        JobConfig("j1", "flights", 1, lambda _: facts, "1.0", Checkpoint.model_validate({"interval": "10s"}))
    )
    job.restored = checkpoint
    job.splits = {SOURCE: before}
    opened = {SOURCE: (split(0, 9, "c/1"), split(1, 0, "c/2"), split(2, 9, "c/2"))}
    job.identify_splits(opened)
    job.add_splits(opened)
    assert job.splits[SOURCE] == (split(0, 3, "c/1"), split(1, 0, "c/2"), split(2, 3, "c/2"))
    attempt = Attempt(job, 0)
    job.effects.clear()
    attempt.assign_all(job)
    (sent,) = [each.message for each in job.effects if isinstance(each, Send)]
    assert isinstance(sent, AssignSplits)
    assigned = ASSIGNED_SPLITS.validate_json(sent.splits)
    assert [each.split.start for each in assigned] == [40, 0, 42]
    assert [each.state is None for each in assigned] == [False, True, False]
