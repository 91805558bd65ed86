"""Maps the chunks of a state to files in storage, over the epochs of one attempt. Does no I/O but by `write`.

    epoch 1   chunks 1 2 3      written to file a                 a[1 2 3]
    epoch 2   chunks 1 2 3 4    only 4 is new: file b             a[1 2 3] b[4]
    epoch 3   chunks 3 4 5      a is less than half alive:        b[4] c[3 5]
                                its live chunks are written to c

A file is entered only after it was written, so a failed write leaves the mapping as it was, and the next epoch is
correct. Files of earlier attempts are never referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import FilePart
from headrace.state.parquet import StateFile, checksum, write_chunks
from headrace.state.row_groups import key_order
from headrace.state.snapshot import StateSnapshot

Write = Callable[[bytes], str]
"""Writes a new file and returns its path. Raises ExternalError if storage refuses."""


@dataclass(slots=True)
class _Written:
    """A file and the chunks in it that the newest snapshot uses.

    rows     number of rows of each row group
    columns  column name -> polars type
    alive    chunk id -> its row groups
    """

    path: str
    bytes: int
    checksum: str
    rows: tuple[int, ...]
    columns: dict[str, str]
    alive: dict[int, range] = field(default_factory=dict)

    @property
    def rows_alive(self) -> int:
        return sum(self.rows[group] for groups in self.alive.values() for group in groups)

    @property
    def sparse(self) -> bool:
        """Whether less than half of its rows are alive: writing these again is cheaper than keeping the file."""
        return self.rows_alive * 2 < sum(self.rows)

    def part(self) -> FilePart:
        groups = tuple(sorted(group for groups in self.alive.values() for group in groups))
        return FilePart(
            path=self.path, row_groups=groups, rows=self.rows_alive, bytes=self.bytes, checksum=self.checksum
        )


class StateFiles:
    """The files of one state of one node in one subtask. max_parallelism: the number of key groups."""

    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._files: list[_Written] = []

    def bring(self, snapshot: StateSnapshot, write: Write) -> None:
        """Writes the chunks of a snapshot that are not in storage yet. Snapshots must come in the order of epochs."""
        chunks = {chunk.id: chunk for chunk in snapshot.chunks if chunk.frame.height}
        self._keep(chunks)
        settled = {chunk for file in self._files if not file.sparse for chunk in file.alive}
        unsettled = [chunk for number, chunk in chunks.items() if number not in settled]
        for file in write_chunks(unsettled, key_order(snapshot, self._max_parallelism)):
            self._add(file, write(file.data))

    def parts(self) -> tuple[FilePart, ...]:
        """The files and row groups that contain the chunks of the last snapshot."""
        return tuple(file.part() for file in self._files)

    def columns(self) -> dict[str, str]:
        """Column name -> polars type, over all files."""
        return {name: dtype for file in self._files for name, dtype in file.columns.items()}

    def _keep(self, chunks: Iterable[int]) -> None:
        """Forgets all other chunks: one that a snapshot no longer has never appears in a later one."""
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


def write_whole(
    state: StateSnapshot, max_parallelism: int, *, write: Write
) -> tuple[tuple[FilePart, ...], dict[str, str]]:
    """Writes all rows of a state to as few files as possible, for a savepoint.

    Returns the files, and column name -> polars type.
    """
    parts: list[FilePart] = []
    columns: dict[str, str] = {}
    for file in write_chunks(state.chunks, key_order(state, max_parallelism)):
        groups = tuple(range(len(file.rows)))
        path = write(file.data)
        parts.append(
            FilePart(
                path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data), checksum=checksum(file.data)
            )
        )
        columns |= file.columns
    return tuple(parts), columns
