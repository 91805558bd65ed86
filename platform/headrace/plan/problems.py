"""Collects the problems of a pipeline during planning, so that all are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from headrace.core.errors import ExpressionError, InvalidPipelineError, Location, Problem, UserError
from headrace.core.text.concealment import Concealment, HiddenTexts
from headrace.plan.stream import Stream

Path = tuple[str, ...]


class Locator(Protocol):
    """Maps paths of the pipeline to places in its file."""

    def locate_in(self, path: Path, offset: int) -> Location:
        """The place of character `offset` of the scalar at `path`, or the nearest known place."""
        ...


class UnknownInputError(Exception):
    """Leaves a node that has problems, or whose input is unknown because of an earlier one.

    `outputs`: the streams that the node has whatever its problems are, so that its readers can be checked.
    """

    def __init__(self, outputs: Mapping[str, Stream] | None = None) -> None:
        super().__init__()
        self.outputs: Mapping[str, Stream] = outputs or {}


class Problems:
    """The list of problems, in the order found. hidden: texts that no problem may contain."""

    def __init__(self, locator: Locator | None = None, hidden: HiddenTexts | None = None) -> None:
        self._locator = locator
        self._concealment = Concealment(hidden or {})
        self._found: list[Problem] = []

    def add(self, path: Path, message: str, remedy: str | None = None, *, offset: int | None = None) -> None:
        """Records a problem at `path`."""
        location = None if self._locator is None else self._locator.locate_in(path, offset or 0)
        self._found.append(self._concealment.problem(Problem(message, path, location, remedy)))

    @contextmanager
    def at(self, path: Path) -> Iterator[None]:
        """Turns a user error inside the block into a problem at `path`, and raises UnknownInputError to leave the
        node.
        """
        try:
            yield
        except ExpressionError as error:
            self.add(path, error.message, error.remedy, offset=error.offset)
            raise UnknownInputError from error
        except UserError as error:
            self.add(path, error.message, error.remedy)
            raise UnknownInputError from error

    def refuse(self, path: Path, message: str, remedy: str | None = None) -> UnknownInputError:
        """Records a problem, and returns the exception that leaves the node."""
        self.add(path, message, remedy)
        return UnknownInputError()

    @contextmanager
    def every(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Independent checks of one node: `with check():` surrounds each, and a failed one does not end the others.

        Raises UnknownInputError after the block if one of them failed.
        """
        failed = False

        @contextmanager
        def check() -> Iterator[None]:
            nonlocal failed
            try:
                yield
            except UnknownInputError:
                failed = True

        yield check
        if failed:
            raise UnknownInputError

    @property
    def found(self) -> list[Problem]:
        """The problems, in file order."""
        return sorted(self._found, key=_place)

    def raise_if_any(self) -> None:
        """Raises InvalidPipelineError with all problems, in file order."""
        if self._found:
            raise InvalidPipelineError(self.found)


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.location.line, problem.location.column) if problem.location else (0, 0)
