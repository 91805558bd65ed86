"""A round observes an object, and records its new status or executes the step that the status requires.

    decide ──> the status differs ──> record it; the next round executes the step
          └──> it does not ────────> execute the step; the next round sees its result

So each step is recorded before it is executed. The record names the object's version that was read: of two operators
that believe they lead, one can write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes_operator.decisions.steps import Delayed, Result, Step, Wait

DELAYED_SECONDS = 2.0
"""Before a step is repeated that did not succeed."""
Status = TypeVar("Status")
S_co = TypeVar("S_co", covariant=True)
AStep = TypeVar("AStep", bound=Step)
AStep_co = TypeVar("AStep_co", bound=Step, covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[S_co, AStep_co]):
    """status: as recorded; after: as it should be recorded; step: that `status` asks for; keeps_result: whether the
    result of the last step still means something after the record."""

    status: S_co
    after: S_co
    step: AStep_co
    keeps_result: bool = True


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome. result: for the next round; pause_s: before it, unless the object changes; None: the object is
    gone; has_recorded: whether it wrote a status."""

    result: Result | None
    pause_s: float | None
    has_recorded: bool = False


class World(Protocol[Status, AStep]):
    """One object of a kind, with its steps, and what surrounds it. Methods block; they raise HeadraceError."""

    def decide(self, result: Result | None) -> Decision[Status, AStep] | None:
        """Observes, and decides; None: the object is gone. result: of the last step."""
        ...

    def record(self, decision: Decision[Status, AStep]) -> None:
        """Writes the new status. Raises ConflictError if the object has changed since `decide`."""
        ...

    def act(self, step: AStep) -> Result | None:
        """Executes a step once. Raises ExternalError or UserError if the step has to be repeated."""
        ...


def one_round(world: World[Status, AStep], result: Result | None) -> Round:
    """Makes one round. result: of the step before. Raises HeadraceError."""
    decision = world.decide(result)
    if decision is None:
        return Round(None, None)
    if decision.after != decision.status:
        world.record(decision)
        return Round(result if decision.keeps_result else None, 0.0, has_recorded=True)
    if isinstance(decision.step, Wait):
        return Round(None, decision.step.pause_s)
    outcome = _acted(world, decision.step)
    return Round(outcome, DELAYED_SECONDS if isinstance(outcome, Delayed) else 0.0)


def _acted(world: World[Status, AStep], step: AStep) -> Result | None:
    try:
        return world.act(step)
    except (ExternalError, UserError) as error:
        return Delayed(str(error))
