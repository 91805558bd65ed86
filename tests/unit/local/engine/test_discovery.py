"""Which slice is told of which splits, and when a source is asked again."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import ExternalError
from headrace.execution.connectors import JobConnectors
from headrace.execution.discovered import DiscoveredSource
from headrace.execution.split_assignment import subtask_of
from headrace.local.engine.job import RETRY_MS, Discovery
from headrace.worker.control import Assign
from headrace.worker.slot.slice import Slice
from support.processes.running import WAIT_SECONDS, wait_until

INTERVAL_MS = 100


class ToldSlice(Slice):
    """A slice with a subtask of source `s`, or without; remembers what it is told."""

    def __init__(self, *, reads: bool = True) -> None:
        self._reads = reads
        self.told: list[Assign] = []

    @property
    def sources(self) -> dict[str, object]:  # type: ignore[override]
        return {"s": self} if self._reads else {}

    def tell(self, commands: object) -> None:
        assert isinstance(commands, dict)
        self.told.append(commands["s"])

    def splits(self) -> list[list[int]]:
        return [[each.split.id.partition for each in assign.splits] for assign in self.told]


class Answers(JobConnectors):
    """Answers looks with what a test put, in order; waits for `door` before each."""

    def __init__(self, *answers: Sequence[SplitDocument] | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked = 0
        self.door = threading.Event()

    def discover(self, source: str) -> tuple[SplitDocument, ...]:
        self.asked += 1
        self.door.wait(WAIT_SECONDS)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return tuple(answer)


def splits(*partitions: int) -> tuple[SplitDocument, ...]:
    return tuple(SplitDocument(topic="t", partition=partition, start=0) for partition in partitions)


def found(*partitions: int, interval_ms: int | None = INTERVAL_MS, final: bool = False) -> dict[str, DiscoveredSource]:
    return {"s": DiscoveredSource(splits=splits(*partitions), interval_ms=interval_ms, final=final)}


def step_until(discovery: Discovery, woken: threading.Event, now_ms: int) -> None:
    """Takes the look that is under way."""
    assert woken.wait(WAIT_SECONDS)
    woken.clear()
    discovery.step(now_ms)


def test_at_first_every_reader_is_told_also_one_without_a_split() -> None:
    slices = [ToldSlice(), ToldSlice(), ToldSlice(reads=False)]
    Discovery(Answers(), slices, lambda: None).begin(found(0, 2, final=True, interval_ms=None), 0)
    owner = subtask_of("t", 0, 2)
    assert slices[owner].splits() == [[0, 2]]
    assert slices[1 - owner].splits() == [[]]
    assert [assign.final for part in slices for assign in part.told] == [True, True]


@pytest.mark.parametrize("opened", [found(0, interval_ms=None, final=True), found(0, final=True)])
def test_a_source_that_is_final_is_not_asked_again(opened: dict[str, DiscoveredSource]) -> None:
    answers = Answers()
    discovery = Discovery(answers, [ToldSlice()], lambda: None)
    discovery.begin(opened, 0)
    discovery.step(10**12)
    assert answers.asked == 0


def test_a_later_look_tells_only_the_owners_of_new_splits_and_the_next_is_due_after_the_interval() -> None:
    slices, woken = [ToldSlice(), ToldSlice()], threading.Event()
    answers = Answers(splits(0, 1, 2), splits(0, 1, 2))
    answers.door.set()
    discovery = Discovery(answers, slices, woken.set)
    discovery.begin(found(0, 1), 0)
    discovery.step(INTERVAL_MS - 1)
    assert answers.asked == 0
    discovery.step(INTERVAL_MS)
    step_until(discovery, woken, 150)
    owner = subtask_of("t", 2, 2)
    assert slices[owner].splits()[1:] == [[2]]
    assert slices[1 - owner].splits()[1:] == []
    discovery.step(150 + INTERVAL_MS - 1)
    assert answers.asked == 1
    discovery.step(150 + INTERVAL_MS)
    wait_until(lambda: answers.asked == 2, "the next look did not begin")


def test_one_look_at_a_time_and_nobody_waits_for_it() -> None:
    answers = Answers(splits(0))
    discovery = Discovery(answers, [ToldSlice()], lambda: None)
    discovery.begin(found(0), 0)
    discovery.step(INTERVAL_MS)
    discovery.step(100 * INTERVAL_MS)
    wait_until(lambda: answers.asked == 1, "the look did not begin")
    discovery.step(200 * INTERVAL_MS)
    answers.door.set()
    assert answers.asked == 1


def test_a_look_that_the_outside_did_not_answer_is_tried_again_later() -> None:
    part, woken, answers = ToldSlice(), threading.Event(), Answers(ExternalError("away"), splits(0, 1))
    answers.door.set()
    discovery = Discovery(answers, [part], woken.set)
    discovery.begin(found(0), 0)
    discovery.step(INTERVAL_MS)
    step_until(discovery, woken, 200)
    discovery.step(200 + RETRY_MS - 1)
    assert answers.asked == 1
    discovery.step(200 + RETRY_MS)
    step_until(discovery, woken, 6_000)
    assert part.splits() == [[0], [1]]


def test_any_other_failure_of_a_look_is_the_jobs() -> None:
    woken, answers = threading.Event(), Answers(ValueError("a fault"))
    answers.door.set()
    discovery = Discovery(answers, [ToldSlice()], woken.set)
    discovery.begin(found(0), 0)
    discovery.step(INTERVAL_MS)
    with pytest.raises(ValueError, match="a fault"):
        step_until(discovery, woken, 200)
