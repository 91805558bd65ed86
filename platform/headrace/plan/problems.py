"""Collects what is wrong with a pipeline while it is planned, so that everything is said at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from headrace.core.errors import ExpressionError, InvalidPipeline, Location, Problem, UserError

Path = tuple[str, ...]


class Locator(Protocol):
    """Knows where a path of the pipeline stands in its file."""

    def locate_in(self, path: Path, offset: int) -> Location:
        """The place of character `offset` of the scalar at `path`, or the nearest place that is known."""
        ...


class Unknown(Exception):  # noqa: N818 - flow control inside the planner
    """A node whose input is unknown because of an earlier problem: nothing more can be said of it."""


class Problems:
    """The list of problems, in the order found."""

    def __init__(self, locator: Locator | None = None) -> None:
        self._locator = locator
        self._found: list[Problem] = []

    def add(self, path: Path, message: str, remedy: str | None = None, *, offset: int | None = None) -> None:
        """Notes a problem at `path`."""
        location = None if self._locator is None else self._locator.locate_in(path, offset or 0)
        self._found.append(Problem(message, path, location, remedy))

    @contextmanager
    def at(self, path: Path) -> Iterator[None]:
        """Turns a user's error inside the block into a problem at `path`, then gives the node up."""
        try:
            yield
        except ExpressionError as error:
            self.add(path, error.message, error.remedy, offset=error.offset)
            raise Unknown from error
        except UserError as error:
            self.add(path, error.message, error.remedy)
            raise Unknown from error

    def refuse(self, path: Path, message: str, remedy: str | None = None) -> Unknown:
        """Notes a problem and gives the exception that leaves the node."""
        self.add(path, message, remedy)
        return Unknown()

    def raise_if_any(self) -> None:
        """Raises InvalidPipeline with all of them, in file order."""
        if self._found:
            raise InvalidPipeline(sorted(self._found, key=_place))


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.location.line, problem.location.column) if problem.location else (0, 0)
