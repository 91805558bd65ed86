"""The one error tree of headrace.

    HeadraceError
    ├── UserError                 the user's input is wrong; a retry does not help
    │   ├── InvalidPipelineError  the pipeline file: carries a list of located problems
    │   ├── ExpressionError       a SQL expression: carries the offset in its text
    │   └── DataError             a bad row where the pipeline's policy is to fail
    ├── ExternalError             an external system (broker, disk, network) failed, rejected a call or is unavailable
    │   └── UnreachableError      no answer: a broker or cluster is down, or its address is wrong
    └── InternalError             a broken invariant of headrace itself

Every error has a `domain` (who can fix it), a flag `retry` (the same call may succeed later) and, if one is known, a
`remedy`. Messages name the place. For UserError and ExternalError a command prints `str(error)` without a stack trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Domain(StrEnum):
    """The party that can fix an error: the user, an external system's operator, or headrace's developers."""

    USER = "user"
    EXTERNAL = "external"
    INTERNAL = "internal"


class HeadraceError(Exception):
    """Base of all errors that headrace raises on purpose."""

    domain: Domain = Domain.INTERNAL

    def __init__(self, message: str, *, remedy: str | None = None, retry: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.retry = retry

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message


class UserError(HeadraceError):
    """Wrong use: invalid arguments, a missing file, a pipeline that is invalid or contradicts itself."""

    domain = Domain.USER


class ExternalError(HeadraceError):
    """Something outside of headrace failed: a broker, a file system, a missing program."""

    domain = Domain.EXTERNAL


class UnreachableError(ExternalError):
    """A broker or cluster that does not answer. Commands end with exit code 3."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy, retry=True)


class InternalError(HeadraceError):
    """An invariant of headrace is broken: please report it."""

    domain = Domain.INTERNAL


class DataError(UserError):
    """A row failed and the node has `on_error: fail`. The message names the row and its source position.

    `place` is that position alone (`flights[2] offset 17`), `node` the node's name; None where they are not known.
    """

    def __init__(
        self, message: str, *, remedy: str | None = None, place: str | None = None, node: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.place = place
        self.node = node


class ExpressionError(UserError):
    """An expression that does not parse, has no type, or names something that does not exist.

    `offset` is the 0-based character in the expression's text, or None if the error concerns the whole expression.
    """

    def __init__(self, message: str, *, offset: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a text file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a pipeline: its place, the message, and the remedy."""

    message: str
    path: tuple[str, ...] = ()
    location: Location | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        where = str(self.location) if self.location else ".".join(self.path)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}\n  {self.remedy}" if self.remedy else text


PROBLEMS_SHOWN_MAX = 50
"""Most problems that the message of an invalid pipeline names."""


class InvalidPipelineError(UserError):
    """A pipeline that cannot run. `problems` holds all its problems, in file order; the message names at most
    `PROBLEMS_SHOWN_MAX` of them.
    """

    def __init__(self, problems: list[Problem]) -> None:
        assert problems, "an invalid pipeline has at least one problem"
        lines = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        more = len(problems) - len(lines)
        if more:
            lines.append(
                f"and {more} more {'problem' if more == 1 else 'problems'}: `headrace validate --json` has all"
            )
        super().__init__("\n".join(lines))
        self.problems = problems


InvalidPipeline = InvalidPipelineError
Unreachable = UnreachableError
"""Former names, for programs written against them. They go with the next version."""


def did_you_mean(name: str, valid: Sequence[str]) -> str | None:
    """The sentence that suggests the nearest valid name, or None if no name is near."""
    near = nearest(name, valid)
    return None if near is None else f"did you mean {near!r}?"


def nearest(name: str, valid: Sequence[str]) -> str | None:
    """The valid name that `name` is probably a misspelling of, or None if no name is near."""
    import difflib

    # difflib is case-sensitive: without this, `TOPIC` would not match `topic`
    same = [each for each in valid if each.casefold() == name.casefold()]
    near = same or difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return near[0] if near else None
