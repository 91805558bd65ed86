"""A way to run blocking code over calls that take virtual time.

The shell of a driver, and that of a journal, is ordinary code that waits for each call. So it is run again from its
beginning after each call, with the answers that it got before. That is sound because what it knows changes only after
its last call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.core.errors import HeadraceError

Call = Callable[[], object]
Answer = Callable[[object], None]
Start = Callable[[Answer], None]
Value = TypeVar("Value")


def outcome(call: Call) -> object:
    """What a call returns, or the error that it raises."""
    try:
        return call()
    except HeadraceError as error:
        return error


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

    @property
    def is_ahead(self) -> bool:
        """The code has used all its answers: what it does next is done for the first time."""
        return self._next == len(self._answers)

    def ask(self, start: Start) -> object:
        """The call's answer; an exception is raised."""
        if self.is_ahead:
            raise Pending(start)
        self._next += 1
        answer = self._answers[self._next - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, value: Callable[[], Value]) -> Value:
        """A value that is the same whenever the code runs again: a time, something drawn."""
        if self.is_ahead:
            self._answers.append(value())
        self._next += 1
        noted = self._answers[self._next - 1]
        if isinstance(noted, Exception):
            raise noted
        return noted  # type: ignore[return-value]  # what `value` has returned
