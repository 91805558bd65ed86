"""Maps the chunks of a state to files in storage, over the epochs of one attempt. Does no I/O but by `write`.

    epoch 6   chunks 1 2 3      1 was restored from z, 2 3 are
                                new: file a                       z[1] a[2 3]
    epoch 7   chunks 1 2 3 4    only 4 is new: file b             z[1] a[2 3] b[4]
    epoch 8   chunks 1 3 4 5    a is less than half alive:        z[1] b[4] c[3 5]
                                its live chunks are written to c

A file is entered only after it was written, so a failed write leaves the mapping as it was, and the next epoch is
correct. A file of an earlier attempt is entered with the first chunk that has it as its origin. It stays in storage
until then, because the checkpoint that the attempt restored names it; after that, because every later one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import FilePart
from headrace.state.parquet import FILE_BYTES_MAX, StateFile, checksum, write_chunks
from headrace.state.row_groups import key_order
from headrace.state.snapshot import StateSnapshot, StoredRows

Write = Callable[[bytes], str]
"""Writes a new file and returns its path. Raises ExternalError if storage refuses."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The row groups of a chunk, and their number of rows."""

    row_groups: Sequence[int]
    rows: int


@dataclass(slots=True)
class _File:
    """A file and the chunks in it that the newest snapshot uses.

    rows     number of its rows. Of a file of an earlier attempt: of those that can belong to this subtask
    columns  column name -> polars type
    alive    chunk id -> its place
    """

    path: str
    bytes: int
    checksum: str
    rows: int
    columns: dict[str, str] = field(default_factory=dict)
    alive: dict[int, _Place] = field(default_factory=dict)

    @property
    def rows_alive(self) -> int:
        return sum(place.rows for place in self.alive.values())

    @property
    def sparse(self) -> bool:
        """Whether less than half of its rows are alive: writing these again is cheaper than keeping the file."""
        return self.rows_alive * 2 < self.rows

    def part(self) -> FilePart:
        groups = tuple(sorted(group for place in self.alive.values() for group in place.row_groups))
        return FilePart(
            path=self.path, row_groups=groups, rows=self.rows_alive, bytes=self.bytes, checksum=self.checksum
        )


class StateFiles:
    """The files of one state of one node in one subtask. max_parallelism: the number of key groups; file_bytes_max: as
    of `write_chunks`."""

    def __init__(self, max_parallelism: int, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._max_parallelism = max_parallelism
        self._file_bytes_max = file_bytes_max
        self._files: list[_File] = []

    def bring(self, snapshot: StateSnapshot, write: Write) -> None:
        """Writes the chunks of a snapshot that are not in storage yet. Snapshots must come in the order of epochs."""
        chunks = {chunk.id: chunk for chunk in snapshot.chunks if chunk.frame.height}
        self._keep(chunks)
        self._enter_restored(snapshot)
        settled = {chunk for file in self._files if not file.sparse for chunk in file.alive}
        unsettled = [chunk for number, chunk in chunks.items() if number not in settled]
        order = key_order(snapshot, self._max_parallelism)
        for file in write_chunks(unsettled, order, file_bytes_max=self._file_bytes_max):
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
            file.alive = {chunk: place for chunk, place in file.alive.items() if chunk in keep}
        self._drop_empty()

    def _enter_restored(self, snapshot: StateSnapshot) -> None:
        """Enters the files that are the origins of chunks, unless these chunks have been written since."""
        known = {chunk for file in self._files for chunk in file.alive}
        files = {file.path: file for file in self._files}
        keys = snapshot.keys
        for chunk in snapshot.chunks:
            origin = chunk.origin
            # rows that other keys have sorted would be looked for in other row groups
            if origin is None or chunk.id in known or origin.file.keys != keys:
                continue
            assert chunk.frame.height == origin.rows, "a chunk with an origin has its rows"
            file = files.setdefault(origin.file.path, _restored(origin))
            file.alive[chunk.id] = _Place(origin.row_groups, origin.rows)
            file.columns |= {name: str(dtype) for name, dtype in chunk.frame.schema.items()}
        self._files = list(files.values())

    def _add(self, file: StateFile, path: str) -> None:
        for other in self._files:
            other.alive = {chunk: place for chunk, place in other.alive.items() if chunk not in file.row_groups}
        self._drop_empty()
        alive = {
            chunk: _Place(groups, sum(file.rows[group] for group in groups))
            for chunk, groups in file.row_groups.items()
        }
        self._files.append(_File(path, len(file.data), checksum(file.data), sum(file.rows), file.columns, alive))

    def _drop_empty(self) -> None:
        self._files = [file for file in self._files if file.alive]


def _restored(origin: StoredRows) -> _File:
    file = origin.file
    return _File(file.path, file.bytes, file.checksum, file.rows)


def write_whole(
    state: StateSnapshot, max_parallelism: int, *, write: Write, file_bytes_max: int = FILE_BYTES_MAX
) -> tuple[tuple[FilePart, ...], dict[str, str]]:
    """Writes all rows of a state to as few files as possible, for a savepoint.

    Returns the files, and column name -> polars type.
    """
    parts: list[FilePart] = []
    columns: dict[str, str] = {}
    for file in write_chunks(state.chunks, key_order(state, max_parallelism), file_bytes_max=file_bytes_max):
        groups = tuple(range(len(file.rows)))
        path = write(file.data)
        parts.append(
            FilePart(
                path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data), checksum=checksum(file.data)
            )
        )
        columns |= file.columns
    return tuple(parts), columns
