"""What is staged under which name: `headrace-<job>-<sink>-<attempt>-<subtask>`, and of that which part. Pure.

A part is what one writer staged between two barriers. Its rows are moved only by a committable that tells of it, and
its tag is drawn by the writer itself: so rows that a writer of an earlier attempt stages when it wakes up late belong
to a part that nobody ever commits, and lie there until they are swept. A part that is committed again is known by its
tag and number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.connect.sink import Committable, SinkContext

_NAME = re.compile(r"headrace-(?P<job>.+)-(?P<sink>[a-z][a-z0-9_.]*)-(?P<attempt>\d+)-(?P<subtask>\d+)")


@dataclass(frozen=True, slots=True)
class StagedBy:
    """The writers of one subtask in one attempt."""

    job: str
    sink: str
    attempt: int
    subtask: int

    def __str__(self) -> str:
        return f"headrace-{self.job}-{self.sink}-{self.attempt}-{self.subtask}"

    @staticmethod
    def of(context: SinkContext) -> StagedBy:
        """The writer that is opened with this context."""
        return StagedBy(context.job, context.node, context.attempt, context.subtask)


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part: the writer's `number`-th, and its tag."""

    writer: StagedBy
    number: int
    tag: str

    @property
    def text(self) -> str:
        """Which of the writer's parts, as the tables have it."""
        return f"{self.number}-{self.tag}"

    @property
    def values(self) -> tuple[str, str, int, int, str]:
        """In the order of `target.PART_COLUMNS`."""
        writer = self.writer
        return writer.job, writer.sink, writer.attempt, writer.subtask, self.text

    @property
    def payload(self) -> dict[str, Any]:
        """What a committable tells of it."""
        return {"attempt": self.writer.attempt, "number": self.number, "tag": self.tag}


def part_of(job: str, committable: Committable) -> StagedPart:
    """The part that a committable of this connector stands for."""
    payload = committable.payload
    writer = StagedBy(job, committable.sink, int(payload["attempt"]), committable.subtask)
    return StagedPart(writer, int(payload["number"]), str(payload["tag"]))


def writer_named(name: str) -> StagedBy | None:
    """Whose that is; None: not one of ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return StagedBy(found["job"], found["sink"], int(found["attempt"]), int(found["subtask"]))
