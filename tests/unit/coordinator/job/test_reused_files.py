"""Whether an attempt goes on with the files of the checkpoint that it restores."""

from __future__ import annotations

import pytest

from headrace.checkpoint.journal.records import Record
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.journaling import journal_read
from headrace.execution.plan_facts import PlanFacts
from support.storage.checkpoints import attempt, checkpoint, committed, history

RUN: list[Record] = [attempt(1), checkpoint(1), committed(1), checkpoint(2), committed(2)]


@pytest.mark.parametrize(
    ("records", "damaged", "reused"),
    [
        (RUN, {}, True),
        ([*RUN, attempt(2, 2)], {}, True),
        # an earlier coordinator may be deleting the files of checkpoint 1
        (RUN, {2: "state/x is missing"}, False),
        ([*RUN, attempt(2, 1)], {}, False),
        ([*RUN, attempt(2, 1), checkpoint(3, 2), committed(3)], {}, True),
        # of a claimed origin, until there has been a checkpoint
        ([attempt(1)], {}, True),
        ([*RUN, attempt(2)], {}, False),
    ],
)
def test_only_those_of_the_newest_checkpoint_that_there_ever_was(
    records: list[Record], damaged: dict[int, str], *, reused: bool
) -> None:
    facts = PlanFacts("plan", 1, 128, {}, {}, {})
    job = Job.accepted(JobConfig("j1", "flights", 1, lambda _: facts, "1.0"))
    job.take_journal(journal_read(1, history(*records), damaged), 0)
    assert job.reused is reused

    job.go_back(None)
    assert not job.reused
