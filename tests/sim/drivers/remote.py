"""Calls to what is elsewhere (a store, a sink): slow, refused, done without an answer, or done long after the caller
has given up; and a way to run blocking code over them.

The shell of a driver is ordinary code that waits for each call. So it is run again from its beginning after each call,
with the answers that it got before: its objects change only after their last call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.core.errors import ExternalError, HeadraceError
from sim.world import Process, World

Call = Callable[[], object]
Answer = Callable[[object], None]
Start = Callable[[Answer], None]
Value = TypeVar("Value")
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


def outcome(call: Call) -> object:
    """What a call returns, or the error that it raises."""
    try:
        return call()
    except HeadraceError as error:
        return error


def _dropped(call: Call) -> None:
    outcome(call)


class Pending(BaseException):
    """Blocking code has come to a call that has no answer yet. start: makes the call."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start


class Replayer:
    """The answers that a piece of blocking code got so far."""

    def __init__(self) -> None:
        self._answers: list[object] = []
        self._next = 0

    def forget(self) -> None:
        """Another piece of code begins."""
        self._answers.clear()
        self._next = 0

    def rewind(self) -> None:
        """The same piece begins again."""
        self._next = 0

    def answered(self, answer: object) -> None:
        """The call that stopped the code has its answer."""
        self._answers.append(answer)

    def ask(self, start: Start) -> object:
        """The call's answer; an exception is raised."""
        if self._next == len(self._answers):
            raise Pending(start)
        self._next += 1
        answer = self._answers[self._next - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, value: Callable[[], Value]) -> Value:
        """A value that is the same whenever the code runs again: a time, something drawn."""
        if self._next == len(self._answers):
            self._answers.append(value())
        self._next += 1
        noted = self._answers[self._next - 1]
        if isinstance(noted, Exception):
            raise noted
        return noted  # type: ignore[return-value]  # what `value` has returned
