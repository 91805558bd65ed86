"""What the files of a files sink are called: hidden ones while they are written and staged, and those that readers see.
Pure.

    .part-<writer>-<random>.tmp                         being written
    .part-<writer>-<epoch>-<number>-<random>.staged     complete, waits for its epoch to be committed
    part-<job>-<epoch>-<subtask>-<number>.<ext>         published

A writer's name is `<job>-<sink>-<attempt>-<subtask>`. So sinks that share a folder tell their hidden files apart, and
an attempt those of earlier ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.connect.sink import SinkContext

_OPEN = re.compile(r"\.part-(.+)-[0-9a-f]{32}\.tmp")
_STAGED = re.compile(r"\.part-(.+)-([0-9]+)-[0-9]+-[0-9a-f]{32}\.staged")


@dataclass(frozen=True, slots=True, order=True)
class WriterName:
    """Whose a hidden file is. A sink's name has no dash, so the text says which part is which."""

    job: str
    sink: str
    attempt: int
    subtask: int

    @classmethod
    def of(cls, context: SinkContext) -> WriterName:
        """The writer that the context is for."""
        return cls(context.job, context.node, context.attempt, context.subtask)

    @classmethod
    def parsed(cls, text: str) -> WriterName | None:
        """The name that a text says, or None: it is none."""
        parts = text.rsplit("-", 3)
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def __str__(self) -> str:
        return f"{self.job}-{self.sink}-{self.attempt}-{self.subtask}"


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A hidden file of a sink. `epoch`: at whose barrier it was staged; None: it is not complete."""

    writer: WriterName
    epoch: int | None

    @classmethod
    def parsed(cls, name: str) -> HiddenFile | None:
        """What a file's name says, or None: it is no hidden file of a sink."""
        match = _OPEN.fullmatch(name) or _STAGED.fullmatch(name)
        writer = None if match is None else WriterName.parsed(match[1])
        if match is None or writer is None:
            return None
        return cls(writer, int(match[2]) if match.re is _STAGED else None)


def open_name(writer: WriterName, random: str) -> str:
    """Of a file that is being written. random: 32 hex digits."""
    return f".part-{writer}-{random}.tmp"


def staged_name(writer: WriterName, epoch: int, number: int, random: str) -> str:
    """Of a complete file that waits for its epoch. random: 32 hex digits."""
    return f".part-{writer}-{epoch}-{number}-{random}.staged"


def prepared_name(writer: WriterName, epoch: int) -> str:
    """All that a writer staged at one barrier."""
    return f"{writer}-{epoch}"


def published_name(context: SinkContext, epoch: int, number: int) -> str:
    """Of a file that readers see."""
    return f"part-{context.job}-{epoch}-{context.subtask}-{number}.{context.format}"
