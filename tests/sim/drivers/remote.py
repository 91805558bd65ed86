"""Calls to what is elsewhere (a store, a sink): slow, refused, done without an answer, or done long after the caller
has given up."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ExternalError
from sim.replayed import Answer, Call, outcome
from sim.world import Process, World

LATE_MAX_MS = (400, 10_000, 90_000)


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely a call has no effect, has its answer lost, or takes effect after its caller has given up."""

    refused: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0


class Remote:
    """What is elsewhere. `away_until_ms`: it refuses everything until then."""

    def __init__(self, world: World, name: str, faults: Faults) -> None:
        self._world = world
        self._name = name
        self._faults = faults
        self.away_until_ms = 0

    def call(self, caller: Process, call: Call, answer: Answer) -> None:
        """Does something in a while and answers later; the answer may be an exception. It is done even if the caller
        has died meanwhile."""
        self._world.after(self._world.delay_ms(), lambda: self._do(caller, call, answer))

    def _do(self, caller: Process, call: Call, answer: Answer) -> None:
        world, faults = self._world, self._faults
        if world.now_ms < self.away_until_ms or world.happens(faults.refused):
            result: object = ExternalError(f"{self._name} is away", retry=True)
        elif world.happens(faults.late):
            world.after(world.between(1, world.chance.choice(LATE_MAX_MS)), lambda: _dropped(call))
            result = ExternalError(f"no answer from {self._name} yet", retry=True)
        else:
            result = outcome(call)
            if world.happens(faults.unanswered):
                result = ExternalError(f"no answer from {self._name}", retry=True)
        world.after(world.delay_ms(), lambda: caller.deliver(lambda: answer(result)))


def _dropped(call: Call) -> None:
    outcome(call)
