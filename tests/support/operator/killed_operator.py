"""Operators that are killed at a given moment: before and after each record, before and after each step."""

from __future__ import annotations

from headrace.kubernetes.connection import ConflictError
from headrace.kubernetes_operator.decisions.steps import JobStep, Result, Wait
from headrace.kubernetes_operator.resources.job import JobResourceStatus
from headrace.kubernetes_operator.rounds import Decision, World, one_round

ROUNDS_MAX = 300
"""More than any change takes."""


class KilledError(Exception):
    """The operator is gone, and what it knew."""


class Operator:
    """One process, which works on a world, simulated or real. dies_at: the moment at which it is killed; 0: never."""

    def __init__(self, world: World[JobResourceStatus, JobStep], *, dies_at: int = 0) -> None:
        self._world = world
        self._dies_at = dies_at
        self.moments = 0
        self._result: Result | None = None

    def round(self) -> bool:
        """Makes a round; returns whether there is more to do at once. Raises KilledError."""
        try:
            done = one_round(self, self._result)
        except ConflictError:
            return True
        self._result = done.result
        return done.pause_s is not None and done.pause_s < 1.0

    def decide(self, result: Result | None) -> Decision[JobResourceStatus, JobStep] | None:
        return self._world.decide(result)

    def record(self, decision: Decision[JobResourceStatus, JobStep]) -> None:
        self._moment()
        self._world.record(decision)
        self._moment()

    def act(self, step: JobStep) -> Result | None:
        assert not isinstance(step, Wait), "nobody acts to wait"
        self._moment()
        result = self._world.act(step)
        self._moment()
        return result

    def _moment(self) -> None:
        self.moments += 1
        if self.moments == self._dies_at:
            raise KilledError


def settle(operator: Operator) -> None:
    """Lets it work until nothing is to be done."""
    for _ in range(ROUNDS_MAX):
        if not operator.round():
            return
    raise AssertionError("the operator does not come to rest")
