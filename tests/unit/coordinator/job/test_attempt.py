"""The live half of an attempt: who reads which split, from where, and when something is due."""

from __future__ import annotations

from headrace.checkpoint.manifest import Manifest, SplitDocument
from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.effects import Discover, Effect, Send, SendAll
from headrace.coordinator.job.events import SlotReported
from headrace.coordinator.job.job import Job
from headrace.core.source_state import SourceState, SplitState
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.deployment import ASSIGNED_SPLITS
from headrace.rpc.messages import AssignSplits, LimitTime
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus
from headrace.spec.settings import Checkpoint
from support.storage.checkpoints import manifest

SOURCE = "flights"


def split(partition: int) -> SplitDocument:
    return SplitDocument(topic="t", partition=partition, start=5)


def job(restored: Manifest | None = None, *, interval_ms: int | None = 60_000, final: bool = False) -> Job:
    facts = PlanFacts("plan", 2, 128, {SOURCE: 2}, {SOURCE: "source"}, {SOURCE: 2})
    checkpoint = Checkpoint.model_validate({"interval": "10s"})
    mine = Job.accepted(JobConfig("j1", "flights", 2, lambda _: facts, "1.0", checkpoint))
    mine.restored = restored
    mine.discovery_ms = {SOURCE: interval_ms}
    mine.final_sources = frozenset({SOURCE} if final else ())
    mine.add_splits({SOURCE: (split(0), split(1), split(2))})
    return mine


def told(effects: list[Effect]) -> dict[int, dict[int, int]]:
    """Subtask -> partition -> where it is read from."""
    shares: dict[int, dict[int, int]] = {}
    for effect in effects:
        assert isinstance(effect, Send)
        assert isinstance(effect.message, AssignSplits)
        for item in ASSIGNED_SPLITS.validate_json(effect.message.splits):
            shares.setdefault(effect.index, {})[item.split.partition] = item.split.start
    return shares


def test_every_partition_is_read_by_one_subtask_from_where_the_checkpoint_stood() -> None:
    state = SourceState((SplitState("t", 1, 40),), emitted=9)
    mine = job(manifest(3).model_copy(update={"sources": {SOURCE: state}}))
    Attempt(mine, 0).assign_all(mine)
    shares = told(mine.effects)
    assert sorted(partition for share in shares.values() for partition in share) == [0, 1, 2]
    assert {partition: start for share in shares.values() for partition, start in share.items()} == {0: 5, 1: 40, 2: 5}
    messages = [each.message for each in mine.effects if isinstance(each, Send)]
    assert {each.emitted for each in messages if isinstance(each, AssignSplits)} == {9}


def test_what_is_found_goes_to_the_subtask_that_it_always_goes_to_and_only_once() -> None:
    mine = job()
    attempt = Attempt(mine, 0)
    attempt.assign_found(mine, SOURCE, (split(2), split(3)))
    assert [list(share) for share in told(mine.effects).values()] == [[3]]
    mine.effects.clear()
    attempt.assign_found(mine, SOURCE, (split(3),))
    assert mine.effects == []
    assert [each.partition for each in mine.splits[SOURCE]] == [0, 1, 2, 3]


def test_sources_are_looked_at_in_their_interval() -> None:
    mine = job()
    attempt = Attempt(mine, 1_000)
    attempt.discover_splits(mine, 60_999)
    assert mine.effects == []
    attempt.discover_splits(mine, 61_000)
    assert mine.effects == [Discover(SOURCE)]
    assert attempt.due_ms(mine, periodic=False) == 121_000


def test_a_source_that_is_final_is_not_looked_at_again() -> None:
    for mine in (job(final=True), job(interval_ms=None)):
        assert Attempt(mine, 0).due_ms(mine, periodic=False) is None


def test_a_periodic_checkpoint_is_due_only_where_one_is_taken() -> None:
    mine = job(final=True)
    attempt = Attempt(mine, 0)
    assert attempt.due_ms(mine, periodic=True) == 10_000
    assert attempt.due_ms(mine, periodic=False) is None


def test_input_has_ended_when_it_has_on_every_slot() -> None:
    attempt = Attempt(job(), 0)
    attempt.ended.add(1)
    assert not attempt.input_ended
    attempt.ended.add(0)
    assert attempt.input_ended


def test_sources_have_a_limit_while_a_slot_holds_too_much_state() -> None:
    plan = PlanFacts("plan", 2, 128, {"a": 1, "b": 1}, {}, {}, timed=frozenset({"a", "b"}), meetings=(("a", "b"),))
    mine = job()
    mine = Job.accepted(JobConfig("j1", "flights", 2, lambda _: plan, "1.0", mine.config.checkpoint))
    attempt = Attempt(mine, 0)

    def limits(index: int, source: str, height: int, *, pressed: bool) -> list[dict[str, int | None]]:
        report = SourceSubtaskStatus(
            source=source, subtask=0, active_height=height, reached=height, has_splits=True, watermark=height, lag=0
        )
        before = len(mine.effects)
        attempt.take_report(mine, SlotReported(index, SlotStatus(sources=(report,), pressed=pressed)))
        sent = [each.message for each in mine.effects[before:] if isinstance(each, SendAll)]
        return [dict(each.limits) for each in sent if isinstance(each, LimitTime)]

    assert limits(0, "a", 500, pressed=False) == []
    assert limits(1, "b", 100, pressed=True) == [{"a": 100, "b": None}]
    assert limits(0, "a", 510, pressed=False) == [], "the other slot does still"
    assert limits(1, "b", 150, pressed=True) == [{"a": 150, "b": None}]
    assert limits(1, "b", 150, pressed=False) == [{"a": None, "b": None}]
    assert limits(0, "a", 900, pressed=False) == []
