"""A round records or acts, never both, and hands the result on."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.kubernetes_operator.decisions.steps import AddFinalizer, Delayed, Result, Step, Wait
from headrace.kubernetes_operator.rounds import DELAYED_SECONDS, Decision, Round, one_round

SAID = Delayed("not yet")


@dataclass
class World:
    """One that decides what a test says, and notes what is asked of it."""

    decision: Decision[str, Step] | None
    outcome: Result | None = None
    seen: list[object] = field(default_factory=list)

    def decide(self, result: Result | None) -> Decision[str, Step] | None:
        return self.decision

    def record(self, decision: Decision[str, Step]) -> None:
        self.seen.append(decision.after)

    def act(self, step: Step) -> Result | None:
        self.seen.append(step)
        return self.outcome


def test_a_record_comes_before_its_step() -> None:
    world = World(Decision("Stopped", "Submitting", AddFinalizer(), keeps_result=False))
    assert one_round(world, SAID) == Round(None, 0.0, has_recorded=True)
    assert world.seen == ["Submitting"]


def test_a_result_outlives_a_record_that_it_still_concerns() -> None:
    world = World(Decision("Stopping", "Stopping, delayed", AddFinalizer()))
    assert one_round(world, SAID).result == SAID


def test_a_step_is_taken_once_nothing_is_to_be_recorded() -> None:
    world = World(Decision("Stopping", "Stopping", AddFinalizer()))
    assert one_round(world, None) == Round(None, 0.0)
    assert world.seen == [AddFinalizer()]


def test_a_step_that_is_delayed_is_repeated_after_a_pause() -> None:
    world = World(Decision("Stopping", "Stopping", AddFinalizer()), SAID)
    assert one_round(world, None) == Round(SAID, DELAYED_SECONDS)


def test_waiting_forgets_the_result() -> None:
    world = World(Decision("Running", "Running", Wait(5.0)))
    assert one_round(world, SAID) == Round(None, 5.0)
    assert world.seen == []


def test_an_object_that_is_gone_has_no_further_round() -> None:
    assert one_round(World(None), None) == Round(None, None)
