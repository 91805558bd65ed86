"""Names of the files of a files sink: hidden ones while they are open or staged, and published ones. Pure.

    .part-<writer>-<random>.tmp                         being written
    .part-<writer>-<epoch>-<number>-<random>.staged     complete, until its epoch is committed
    part-<job>-<epoch>-<subtask>-<number>.<ext>         published
    .committed-<writer>-<epoch>                         empty: the commit of the writer's epoch has begun

A writer's name is `<job>-<sink>-<attempt>-<subtask>`. So hidden files of sinks that share a folder are distinct, and so
are those of different attempts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.connect.sink import SinkContext

_OPEN = re.compile(r"\.part-(.+)-[0-9a-f]{32}\.tmp")
_STAGED = re.compile(r"\.part-(.+)-([0-9]+)-[0-9]+-[0-9a-f]{32}\.staged")


@dataclass(frozen=True, slots=True, order=True)
class WriterName:
    """The writer of a hidden file. A sink's name has no dash, so the text can be parsed."""

    job: str
    sink: str
    attempt: int
    subtask: int

    @classmethod
    def of(cls, context: SinkContext) -> WriterName:
        """The writer with this context."""
        return cls(context.job, context.node, context.attempt, context.subtask)

    @classmethod
    def parsed(cls, text: str) -> WriterName | None:
        """The name in a text, or None for other texts."""
        parts = text.rsplit("-", 3)
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def __str__(self) -> str:
        return f"{self.job}-{self.sink}-{self.attempt}-{self.subtask}"


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A hidden file of a sink. `epoch`: at whose barrier it was staged; None: it is still open."""

    writer: WriterName
    epoch: int | None

    @classmethod
    def parsed(cls, name: str) -> HiddenFile | None:
        """The hidden file with this name, or None for other names."""
        match = _OPEN.fullmatch(name) or _STAGED.fullmatch(name)
        writer = None if match is None else WriterName.parsed(match[1])
        if match is None or writer is None:
            return None
        return cls(writer, int(match[2]) if match.re is _STAGED else None)


def open_name(writer: WriterName, random: str) -> str:
    """Name of an open file. random: 32 hex digits."""
    return f".part-{writer}-{random}.tmp"


def staged_name(writer: WriterName, epoch: int, number: int, random: str) -> str:
    """Name of a complete file that waits for its epoch. random: 32 hex digits."""
    return f".part-{writer}-{epoch}-{number}-{random}.staged"


def prepared_name(writer: WriterName, epoch: int) -> str:
    """Name of everything that a writer staged at one barrier."""
    return f"{writer}-{epoch}"


def published_name(context: SinkContext, epoch: int, number: int) -> str:
    """Name of a published file."""
    return f"part-{context.job}-{epoch}-{context.subtask}-{number}.{context.format}"
