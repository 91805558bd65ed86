"""A subtask's share of restored state: reads the row groups that can contain its rows, verifies them, keeps its rows.

    footer ─> row groups of the subtask's key groups ─> their byte ranges, each verified ─> rows of these key groups

A file of an earlier version, whose footer describes no row groups, is read and verified as a whole. So is every row
group of a state that is not divided by key.

Frames are read one after the other, as they are iterated, and have `PART_ROWS_MAX` rows at most: a restore holds one of
them, whatever the state's size. Iterated again, they are read again.

Row groups of which every row is the subtask's become a frame of their own with their `StoredRows`, so that the next
checkpoint can name them again. Other frames have none: rows that are cut out of row groups, and rows of files that the
job does not own, that an earlier version wrote, or that another `max_parallelism` sorted. The job owns the files in its
folder, and those of the savepoint that it has claimed.

This module must not know operators: each one interprets its frames in its `restore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.own_handles import can_hold
from headrace.checkpoint.part_reader import PartReader, ReadRange
from headrace.checkpoint.paths import is_absolute
from headrace.core.group_ranges import group_span
from headrace.state.place import PIECE_BYTES_MAX
from headrace.state.redistribute import share
from headrace.state.row_groups import RowGroups
from headrace.state.runs import PART_ROWS_MAX
from headrace.state.snapshot import RestoredFrame, RestoredStates, StateKind, StoredFile, StoredRows

_ENCODED_SHARE = 4
"""Rows take about this part of their memory in a file."""

NodeStates = Mapping[str, RestoredStates]
"""Node -> its states."""


@dataclass(frozen=True, slots=True)
class OwnFolders:
    """URLs of the folders whose files the job owns.

    job      its own, to which relative paths belong
    claimed  of the savepoint that it has claimed; empty: there is none
    """

    job: str = ""
    claimed: str = ""

    def has(self, path: str) -> bool:
        """Whether a file in a manifest is in one of them."""
        return not is_absolute(path) or (bool(self.claimed) and path.startswith(f"{self.claimed}/"))


def restored_states(
    handles: Iterable[StateHandle],
    nodes: Iterable[str],
    subtask: int,
    *,
    of: int,
    max_parallelism: int,
    read: ReadRange,
    owned: OwnFolders | None = None,
    piece_bytes: int = PIECE_BYTES_MAX,
) -> NodeStates:
    """The share of subtask `subtask`, out of `of`, of the states of these nodes.

    owned: frames of files in these folders have origins. None: there are none.
    piece_bytes: of the rows of a frame, about.

    A state whose rows all belong to other subtasks has no frames. Iterating them raises ExternalError for a file that
    is corrupt or missing, and what `read` raises.
    """
    wanted = set(nodes)
    states: dict[tuple[str, str], list[StateHandle]] = {}
    for handle in handles:
        if handle.node in wanted:
            states.setdefault((handle.node, handle.state), []).append(handle)
    owner = _Owner(subtask, of, max_parallelism)
    files = _Files(read, OwnFolders() if owned is None else owned, piece_bytes // _ENCODED_SHARE)
    restored: dict[str, dict[str, _StoredFrames]] = {}
    for (node, state), own in states.items():
        ordered = sorted(own, key=lambda handle: handle.subtask)
        restored.setdefault(node, {})[state] = _StoredFrames(ordered, owner, files)
    return restored


def checked_rows(part: FilePart, read: ReadRange) -> list[pl.DataFrame]:
    """The frames of a part. Raises ExternalError for a file that is corrupt or missing."""
    opened = PartReader(part, read)
    return opened.rows(opened.row_groups)


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads files. piece_bytes: of row groups that are read at once, as they lie in their file."""

    read: ReadRange
    owned: OwnFolders
    piece_bytes: int

    def stored(self, part: FilePart, keys: tuple[str, ...], rows: int) -> StoredFile | None:
        """The file as checkpoints of the job may name it; None: the job does not own it. rows: as in `StoredFile`."""
        return StoredFile(part.path, part.bytes, part.checksum, keys, rows) if self.owned.has(part.path) else None


@dataclass(frozen=True, slots=True)
class _Owner:
    """The subtask whose rows are restored."""

    subtask: int
    of: int
    max_parallelism: int

    def share(self, frame: pl.DataFrame, handle: StateHandle, first_row: int = 0) -> pl.DataFrame:
        """Its rows of a frame. first_row: rows of the state before this frame, where rows are spread by number."""
        kind = StateKind(handle.kind)
        return share(frame, kind, handle.keys, self.subtask, self.of, self.max_parallelism, first_row=first_row)


@dataclass(frozen=True, slots=True)
class _StoredFrames(Iterable[RestoredFrame]):
    """The subtask's rows of one state, out of the handles of all subtasks that wrote it: read as they are iterated."""

    handles: list[StateHandle]
    owner: _Owner
    files: _Files

    def __iter__(self) -> Iterator[RestoredFrame]:
        owner, handles = self.owner, self.handles
        if StateKind(handles[0].kind) is StateKind.BROADCAST:
            handles = handles[:1]  # every copy is the same
        rows_before = 0
        for handle in handles:
            if not can_hold(handle, owner.subtask, of=owner.of, max_parallelism=owner.max_parallelism):
                continue
            for part in handle.files:
                place = f" of state {handle.state!r} of node {handle.node!r}"
                opened = PartReader(part, self.files.read, place, folder=self.files.owned.job)
                if opened.groups is not None and opened.groups.max_parallelism == owner.max_parallelism:
                    yield from _by_key_group(opened, opened.groups, handle, self)
                    continue
                for frame, origin in _chunks(opened, handle.keys, self.files):
                    own = owner.share(frame, handle, rows_before)
                    rows_before += frame.height
                    if own.height:
                        yield RestoredFrame(own, origin if own.height == frame.height else None)


def _by_key_group(
    part: PartReader, groups: RowGroups, handle: StateHandle, wanted: _StoredFrames
) -> Iterator[RestoredFrame]:
    """The subtask's rows of a part whose row groups have ranges of key groups. For each piece at most two frames: the
    row groups that lie within the subtask's key groups, and what is cut out of the others."""
    owner, piece_bytes = wanted.owner, wanted.files.piece_bytes
    span = group_span(owner.subtask, owner.of, owner.max_parallelism)
    within = [group.lies_within(span) for group in groups.groups]
    rows_within = sum(group.rows for group, own in zip(groups.groups, within, strict=True) if own)
    file = wanted.files.stored(part.part, handle.keys, rows_within)
    met = [number for number in part.row_groups if groups.groups[number].meets(span)]
    for run in _pieces(groups, met, piece_bytes):
        (frame,) = part.rows(run)
        # rows are sorted by key group, so only those of the first and the last row group can belong to other subtasks
        own = tuple(number for number in run if within[number])
        begin = sum(groups.groups[number].rows for number in run if own and number < own[0])
        rows = sum(groups.groups[number].rows for number in own)
        if own:
            yield RestoredFrame(frame.slice(begin, rows), None if file is None else StoredRows(file, own, rows))
        if rows < frame.height:
            cut = owner.share(pl.concat([frame.head(begin), frame.slice(begin + rows)]), handle)
            if cut.height:
                yield RestoredFrame(cut)


def _chunks(part: PartReader, keys: tuple[str, ...], files: _Files) -> Iterator[tuple[pl.DataFrame, StoredRows | None]]:
    """The rows of a part, with their origin unless they are sorted by key: then it is by another `max_parallelism`."""
    groups = part.groups
    if groups is None:
        yield from ((frame, None) for frame in part.rows(part.row_groups))
        return
    file = None
    if groups.max_parallelism is None:
        file = files.stored(part.part, keys, sum(group.rows for group in groups.groups))
    for run in _pieces(groups, part.row_groups, files.piece_bytes):
        (frame,) = part.rows(run)
        yield frame, None if file is None else StoredRows(file, tuple(run), frame.height)


def _pieces(groups: RowGroups, numbers: Sequence[int], piece_bytes: int) -> Iterator[list[int]]:
    """These row groups, those of one chunk together, up to `PART_ROWS_MAX` rows and `piece_bytes`."""
    for run in groups.runs(numbers):
        piece: list[int] = []
        rows = size = 0
        for number in run:
            group = groups.groups[number]
            if piece and (rows + group.rows > PART_ROWS_MAX or size + group.bytes > piece_bytes):
                yield piece
                piece, rows, size = [], 0, 0
            piece.append(number)
            rows, size = rows + group.rows, size + group.bytes
        yield piece
