"""From acknowledgements to manifests: whole, in one order, and honest about the end of input."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument, SubtaskDocument
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.states.shared.live_epochs import manifest_of, savepoint_states
from headrace.core.source_state import SourceState, SplitState
from headrace.execution.epochs import Pending, Purpose
from headrace.execution.manifests import savepoint_of
from headrace.execution.plan_facts import PlanFacts
from support.storage.checkpoints import handle, part

TIMED = frozenset({"flights"})


def plan(parallelism: int, timed: frozenset[str] = TIMED) -> PlanFacts:
    return PlanFacts(
        plan_hash="plan",
        slots=parallelism,
        max_parallelism=128,
        sources={"flights": parallelism},
        nodes={"flights": "source"},
        parallelism={"flights": parallelism},
        timed=timed,
    )


def job(timed: frozenset[str] = TIMED, *, keeps_time_open: bool = False) -> Job:
    config = JobConfig("j1", "flights", 2, lambda parallelism: plan(parallelism, timed), "1.0")
    mine = Job.accepted(replace(config, keeps_time_open=keeps_time_open))
    mine.attempt = 3
    mine.add_splits({"flights": tuple(SplitDocument(topic="t", partition=index, start=0) for index in (0, 1))})
    return mine


def document(index: int, *, savepoint: bool = False) -> SubtaskDocument:
    return SubtaskDocument(
        task="count",
        subtask=index,
        states=(handle(part(f"state/{index}")),),
        savepoint=(handle(part(f"saved/{index}")),) if savepoint else (),
        sources={"flights": SourceState((SplitState("t", index, 10 * index),), emitted=index)},
        committables=(CommittableDocument(sink="delays", subtask=index, epoch=7, payload={}),),
    )


def pending(*indexes: int, final: bool = False, drain: bool = False) -> Pending:
    mine = Pending(7, Purpose.SAVEPOINT, 0, set(), "s3://saved", drain=drain, final=final)
    mine.documents += [document(index, savepoint=True) for index in indexes]
    return mine


def test_who_answered_first_makes_no_difference() -> None:
    assert manifest_of(job(), pending(0, 1), 9) == manifest_of(job(), pending(1, 0), 9)


def test_it_holds_what_every_subtask_said() -> None:
    mine = pending(1, 0)
    manifest = manifest_of(job(), mine, 9, mine.committables)
    assert (manifest.epoch, manifest.attempt, manifest.job) == (7, 3, "j1")
    assert [file.path for state in manifest.states for file in state.files] == ["state/0", "state/1"]
    assert [item.subtask for item in manifest.committables] == [0, 1]
    assert [split.position for split in manifest.sources["flights"].splits] == [0, 10]
    assert manifest.sources["flights"].emitted == 1
    assert [split.partition for split in manifest.splits["flights"]] == [0, 1]


def test_a_savepoint_has_files_of_its_own_and_commits_nothing() -> None:
    mine = pending(1, 0)
    saved = savepoint_of(manifest_of(job(), mine, 9), savepoint_states(mine))
    assert saved.kind == "savepoint"
    assert saved.committables == ()
    assert [file.path for state in saved.states for file in state.files] == ["saved/0", "saved/1"]


@pytest.mark.parametrize(
    ("final", "drain", "timed", "keeps_time_open", "drained"),
    [
        (False, False, TIMED, False, False),
        (False, True, TIMED, False, True),
        (True, False, TIMED, False, True),
        (True, False, TIMED, True, False),
        (True, False, frozenset[str](), False, False),
    ],
)
def test_time_has_gone_to_its_end_by_a_drain_or_by_the_end_of_input(
    final: bool, drain: bool, timed: frozenset[str], keeps_time_open: bool, drained: bool
) -> None:
    manifest = manifest_of(job(timed, keeps_time_open=keeps_time_open), pending(0, 1, final=final, drain=drain), 9)
    assert (manifest.final, manifest.drained) == (final, drained)


def test_it_names_all_that_the_attempts_writers_may_use() -> None:
    mine, epoch = job(), pending(0)
    mine.names = {"delays": ("delays-3-0", "delays-3-1"), "late": ("late-3-0",)}
    item = CommittableDocument(sink="delays", subtask=0, epoch=7, payload={}, name="delays-3-0", successor="delays-3-2")
    found = manifest_of(mine, epoch, 9, (item,))
    assert found.transactions == {"delays": ("delays-3-0", "delays-3-1", "delays-3-2"), "late": ("late-3-0",)}
