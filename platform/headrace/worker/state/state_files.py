"""Where the chunks of a state lie in storage, over the epochs of one attempt. No I/O of its own: it gets a `write`.

    epoch 1   chunks 1 2 3      written to file a                 a[1 2 3]
    epoch 2   chunks 1 2 3 4    only 4 is new: file b             a[1 2 3] b[4]
    epoch 3   chunks 3 4 5      a is less than half alive:        b[4] c[3 5]
                                its rest moves to c

A file counts only once it is written: after a failed write everything stands where it stood before, so that the next
epoch is right. Files of earlier attempts are never named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import FilePart
from headrace.state.parquet import StateFile, checksum, write_chunks
from headrace.state.snapshot import Chunk, StateSnapshot

Write = Callable[[bytes], str]
"""Writes a new file and gives its path. Raises ExternalError where storage refuses."""


@dataclass(slots=True)
class _Written:
    """A file with the chunks that are alive in it. `rows_all`: rows in the file; `alive`: chunk id -> row group."""

    path: str
    bytes: int
    checksum: str
    rows: tuple[int, ...]
    columns: dict[str, str]
    alive: dict[int, int] = field(default_factory=dict)

    @property
    def rows_alive(self) -> int:
        return sum(self.rows[group] for group in self.alive.values())

    @property
    def sparse(self) -> bool:
        """Whether less than half of its rows are alive: then it costs more than writing them again."""
        return self.rows_alive * 2 < sum(self.rows)

    def part(self) -> FilePart:
        groups = tuple(sorted(self.alive.values()))
        return FilePart(
            path=self.path, row_groups=groups, rows=self.rows_alive, bytes=self.bytes, checksum=self.checksum
        )


class StateFiles:
    """The files of one state of one node in one subtask."""

    def __init__(self) -> None:
        self._files: list[_Written] = []

    def bring(self, snapshot: StateSnapshot, write: Write) -> None:
        """Writes what is not in storage yet. Snapshots come in the order of their epochs."""
        chunks = {chunk.id: chunk for chunk in snapshot.chunks if chunk.frame.height}
        self._keep(chunks)
        settled = {chunk for file in self._files if not file.sparse for chunk in file.alive}
        for file in write_chunks(chunk for number, chunk in chunks.items() if number not in settled):
            self._add(file, write(file.data))

    def parts(self) -> tuple[FilePart, ...]:
        """Files and row groups that hold the chunks of the last snapshot."""
        return tuple(file.part() for file in self._files)

    def columns(self) -> dict[str, str]:
        """Column name -> polars type, over all files."""
        return {name: dtype for file in self._files for name, dtype in file.columns.items()}

    def _keep(self, chunks: Iterable[int]) -> None:
        """A chunk that is gone does not come back."""
        keep = set(chunks)
        for file in self._files:
            file.alive = {chunk: group for chunk, group in file.alive.items() if chunk in keep}
        self._drop_empty()

    def _add(self, file: StateFile, path: str) -> None:
        for other in self._files:
            other.alive = {chunk: group for chunk, group in other.alive.items() if chunk not in file.row_groups}
        self._drop_empty()
        written = _Written(path, len(file.data), checksum(file.data), file.rows, file.columns, dict(file.row_groups))
        self._files.append(written)

    def _drop_empty(self) -> None:
        self._files = [file for file in self._files if file.alive]


def write_whole(chunks: Iterable[Chunk], write: Write) -> tuple[tuple[FilePart, ...], dict[str, str]]:
    """All rows of a state as few files as possible, for a savepoint: the files, and column name -> polars type."""
    parts: list[FilePart] = []
    columns: dict[str, str] = {}
    for file in write_chunks(chunks):
        groups = tuple(range(len(file.rows)))
        path = write(file.data)
        parts.append(
            FilePart(
                path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data), checksum=checksum(file.data)
            )
        )
        columns |= file.columns
    return tuple(parts), columns
