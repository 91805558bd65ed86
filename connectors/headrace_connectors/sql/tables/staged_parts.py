"""Names of staged rows: `headrace-<job>-<sink>-<attempt>-<subtask>`, and the part within. Pure.

A part holds the rows that one writer staged between two barriers. Only a committable that names it moves its rows, and
the writer itself draws its random tag. So rows that a suspended writer of an earlier attempt stages late belong to a
part that is never committed, and remain until they are swept. A part that is committed again is recognised by its tag
and number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.connect.sink import Committable, SinkContext

_NAME = re.compile(r"headrace-(?P<job>.+)-(?P<sink>[a-z][a-z0-9_.]*)-(?P<attempt>\d+)-(?P<subtask>\d+)")


@dataclass(frozen=True, slots=True)
class StagedBy:
    """The writer of one subtask in one attempt."""

    job: str
    sink: str
    attempt: int
    subtask: int

    def __str__(self) -> str:
        return f"headrace-{self.job}-{self.sink}-{self.attempt}-{self.subtask}"

    @staticmethod
    def of(context: SinkContext) -> StagedBy:
        """The writer with this context."""
        return StagedBy(context.job, context.node, context.attempt, context.subtask)


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part: the writer's `number`-th, and its tag."""

    writer: StagedBy
    number: int
    tag: str

    @property
    def text(self) -> str:
        """The part's id within the writer, as in the tables."""
        return f"{self.number}-{self.tag}"

    @property
    def values(self) -> tuple[str, str, int, int, str]:
        """Values in the order of `target.PART_COLUMNS`."""
        writer = self.writer
        return writer.job, writer.sink, writer.attempt, writer.subtask, self.text

    @property
    def payload(self) -> dict[str, Any]:
        """The part's entry in a committable."""
        return {"attempt": self.writer.attempt, "number": self.number, "tag": self.tag}


def part_of(job: str, committable: Committable) -> StagedPart:
    """The part of a committable."""
    payload = committable.payload
    writer = StagedBy(job, committable.sink, int(payload["attempt"]), committable.subtask)
    return StagedPart(writer, int(payload["number"]), str(payload["tag"]))


def writer_named(name: str) -> StagedBy | None:
    """The writer with this name; None for a foreign name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return StagedBy(match["job"], match["sink"], int(match["attempt"]), int(match["subtask"]))
