"""State as operators snapshot and restore it: named, columnar, immutable.

A state is a set of rows, held as chunks. A chunk never changes: an operator adds rows as new chunks, and merging old
chunks creates a new one. So a snapshot is a list of references, taken between two batches, and a checkpoint writes only
the chunks that no earlier one has written.

A frame is self-describing by its column names and types. The operator that wrote it reads any frame that an earlier
version of it wrote, or rejects it in `restore` with a UserError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

    from headrace.state.row_groups import SortedRows


class StateKind(StrEnum):
    """How a state's rows are redistributed over subtasks when the parallelism changes.

    KEYED      by the key group of the state's key columns (no key columns: all rows to subtask 0)
    LIST       rows are spread evenly
    UNION      every subtask receives the rows of all subtasks
    BROADCAST  every subtask has the same rows; the rows of one copy are restored to all
    """

    KEYED = "keyed"
    LIST = "list"
    UNION = "union"
    BROADCAST = "broadcast"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A state file of the job that an earlier attempt wrote, or of the savepoint that it has claimed.

    path      relative to the job's folder, or absolute
    bytes     size of the whole file
    checksum  of the whole file
    keys      the key columns by which its rows are sorted; none: they have no key
    rows      number of its rows that can belong to the subtask, whether a checkpoint names them or not
    """

    path: str
    bytes: int
    checksum: str
    keys: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Row groups of a state file. rows: their number of rows."""

    file: StoredFile
    row_groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a state. `id` is unique within one live operator and state: the same id is the same frame.

    sorted   the same rows in the order of the state's files; None: files are written from the frame, which is sorted
    origin   the row groups that have exactly these rows and columns, the rows in any order. A checkpoint names them
             instead of writing the chunk. None: no file of an earlier attempt has just these rows
    """

    id: int
    frame: pl.DataFrame
    sorted: SortedRows | None = None
    origin: StoredRows | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.frame.height


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """One state of one operator at a barrier. `keys`: columns that the key group is computed from, in order."""

    name: str
    kind: StateKind
    keys: tuple[str, ...]
    chunks: tuple[Chunk, ...]

    @property
    def rows(self) -> int:
        """Rows over all chunks."""
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class RestoredFrame:
    """Rows of a state that are restored. An operator that keeps them unchanged passes `origin` on to their chunk.

    origin   the row groups that have these rows; None: other rows lie between them, or the file is not the job's own
    """

    frame: pl.DataFrame
    origin: StoredRows | None = None


RestoredStates: TypeAlias = "Mapping[str, Iterable[RestoredFrame]]"
"""State name -> the frames with this subtask's rows, in any order; frames of one state may differ in columns. They may
be read from storage one by one, so who keeps them all keeps the whole state; they can be iterated again."""
