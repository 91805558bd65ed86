"""A subtask's share of restored state: reads the row groups that can contain its rows, verifies them, keeps its rows.

    footer ─> row groups of the subtask's key groups ─> their byte ranges, each verified ─> rows of these key groups

A file of an earlier version, whose footer describes no row groups, is read and verified as a whole. So is every row
group of a state that is not divided by key.

Row groups of which every row is the subtask's become a frame of their own with their `StoredRows`, so that the next
checkpoint can name them again. Other frames have none: rows that are cut out of row groups, and rows of files that lie
outside of the job's folder, that an earlier version wrote, or that another `max_parallelism` sorted.

This module must not know operators: each one interprets its frames in its `restore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.own_handles import can_hold
from headrace.checkpoint.paths import is_absolute, joined
from headrace.core.errors import ExternalError, InternalError
from headrace.core.group_ranges import group_span
from headrace.state.parquet import checksum, checksums, footer_bytes, read_row_groups, row_groups_of
from headrace.state.redistribute import share
from headrace.state.row_groups import RowGroup, RowGroups
from headrace.state.snapshot import RestoredFrame, StateKind, StoredFile, StoredRows

FOOTER_BYTES = 32_768
"""Bytes at the end of a file that are read first: the whole footer, unless the file has many row groups."""

NodeStates = dict[str, dict[str, list[RestoredFrame]]]
"""Node -> state -> frames."""


class ReadRange(Protocol):
    """Reads `length` bytes of a file, or fewer if it ends before. Raises ExternalError if the file does not exist or
    storage does not answer."""

    def __call__(self, path: str, offset: int, /, *, length: int) -> bytes:
        """Returns the bytes from `offset` on."""
        ...


def restored_states(
    handles: Iterable[StateHandle],
    nodes: Iterable[str],
    subtask: int,
    *,
    of: int,
    max_parallelism: int,
    read: ReadRange,
    folder: str = "",
) -> NodeStates:
    """The share of subtask `subtask`, out of `of`, of the states of these nodes.

    folder: URL of the job's folder, to which relative paths of files belong. Frames of these files have origins.

    A state whose rows all belong to other subtasks has an empty list of frames. Raises ExternalError for a file that is
    corrupt or missing.
    """
    wanted = set(nodes)
    states: dict[tuple[str, str], list[StateHandle]] = {}
    for handle in handles:
        if handle.node in wanted:
            states.setdefault((handle.node, handle.state), []).append(handle)
    owner = _Owner(subtask, of, max_parallelism)
    files = _Files(read, folder)
    restored: NodeStates = {}
    for (node, state), own in states.items():
        restored.setdefault(node, {})[state] = _frames(sorted(own, key=lambda handle: handle.subtask), owner, files)
    return restored


def checked_rows(part: FilePart, read: ReadRange) -> list[pl.DataFrame]:
    """The frames of a part. Raises ExternalError for a file that is corrupt or missing."""
    opened = _OpenPart(part, _Files(read))
    return opened.rows(opened.row_groups)


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads files. folder: URL of the job's folder."""

    read: ReadRange
    folder: str = ""


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


def _frames(handles: list[StateHandle], owner: _Owner, files: _Files) -> list[RestoredFrame]:
    """The subtask's rows of one state, out of the handles of all subtasks that wrote it."""
    if StateKind(handles[0].kind) is StateKind.BROADCAST:
        handles = handles[:1]  # every copy is the same
    frames: list[RestoredFrame] = []
    rows_before = 0
    for handle in handles:
        if not can_hold(handle, owner.subtask, of=owner.of, max_parallelism=owner.max_parallelism):
            continue
        for part in handle.files:
            opened = _OpenPart(part, files, f" of state {handle.state!r} of node {handle.node!r}")
            if opened.groups is not None and opened.groups.max_parallelism == owner.max_parallelism:
                frames += _by_key_group(opened, opened.groups, handle, owner)
                continue
            for frame, origin in opened.chunks(handle.keys):
                own = owner.share(frame, handle, rows_before)
                rows_before += frame.height
                if own.height:
                    frames.append(RestoredFrame(own, origin if own.height == frame.height else None))
    return frames


def _by_key_group(part: _OpenPart, groups: RowGroups, handle: StateHandle, owner: _Owner) -> Iterator[RestoredFrame]:
    """The subtask's rows of a part whose row groups have ranges of key groups. For each chunk at most two frames: the
    row groups that lie within the subtask's key groups, and what is cut out of the others."""
    span = group_span(owner.subtask, owner.of, owner.max_parallelism)
    within = [group.lies_within(span) for group in groups.groups]
    file = part.stored(handle.keys, sum(group.rows for group, own in zip(groups.groups, within, strict=True) if own))
    runs = list(groups.runs([number for number in part.row_groups if groups.groups[number].meets(span)]))
    frames = part.rows([number for run in runs for number in run])
    for run, frame in zip(runs, frames, strict=True):
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


class _OpenPart:
    """A part of a state, whose file is read by ranges.

    row_groups   numbers of the part's row groups
    groups       all row groups of the file; None: its footer does not describe them
    """

    def __init__(self, part: FilePart, files: _Files, place: str = "") -> None:
        """place: ` of state .. of node ..`, for errors."""
        self._part = part
        self._url = joined(files.folder, part.path)
        self._read = files.read
        self._place = place
        self.row_groups = part.row_groups
        # zeros are pages of no memory until a range is read into them
        self._data = np.zeros(part.bytes, np.uint8).data
        self._end = max(0, part.bytes - FOOTER_BYTES)
        self._load(self._end, part.bytes)
        begin = max(0, part.bytes - footer_bytes(bytes(self._data[-8:])))
        if begin < self._end:
            self._load(begin, self._end)
            self._end = begin
        try:
            self.groups = row_groups_of(self._data)
        except InternalError as error:
            raise self._damaged(error.message) from error

    def rows(self, row_groups: Sequence[int]) -> list[pl.DataFrame]:
        """The rows of these row groups, a frame for each chunk. Raises ExternalError for damaged bytes."""
        if self.groups is None:
            self._load_whole()
        else:
            members = [(number, self.groups.groups[number]) for number in row_groups]
            for begin, end in _ranges(member for _, member in members):
                self._load(begin, min(end, self._end))
            self._verify(members)
        try:
            return read_row_groups(self._data, row_groups)
        except InternalError as error:
            raise self._damaged(error.message) from error

    def chunks(self, keys: tuple[str, ...]) -> Iterator[tuple[pl.DataFrame, StoredRows | None]]:
        """A frame for each chunk, with its origin unless its rows are sorted by key: then it is by another
        `max_parallelism`."""
        frames, groups = self.rows(self.row_groups), self.groups
        if groups is None or groups.max_parallelism is not None:
            yield from ((frame, None) for frame in frames)
            return
        file = self.stored(keys, sum(group.rows for group in groups.groups))
        for run, frame in zip(groups.runs(self.row_groups), frames, strict=True):
            yield frame, None if file is None else StoredRows(file, tuple(run), frame.height)

    def stored(self, keys: tuple[str, ...], rows: int) -> StoredFile | None:
        """The file as checkpoints of the job may name it; None: it is not the job's own. rows: as in `StoredFile`."""
        part = self._part
        return None if is_absolute(part.path) else StoredFile(part.path, part.bytes, part.checksum, keys, rows)

    def _load(self, begin: int, end: int) -> None:
        """Reads these bytes; from `_end` on they are there."""
        if begin >= end:
            return
        data = self._read(self._url, begin, length=end - begin)
        if len(data) != end - begin:
            raise self._damaged(f"it ends before {self._part.bytes} bytes, which were written")
        self._data[begin:end] = data

    def _load_whole(self) -> None:
        self._load(0, self._end)
        self._end = 0
        if checksum(bytes(self._data)) != self._part.checksum:
            raise self._damaged(f"its checksum is not {self._part.checksum}, which was written")

    def _verify(self, members: Sequence[tuple[int, RowGroup]]) -> None:
        found = checksums([bytes(self._data[group.offset : group.offset + group.bytes]) for _, group in members])
        for (number, group), actual in zip(members, found, strict=True):
            if actual != group.checksum:
                raise self._damaged(f"row group {number}, {group.describe()}, is altered")

    def _damaged(self, reason: str) -> ExternalError:
        return ExternalError(
            f"{self._url}{self._place} is damaged: {reason}",
            remedy="restore from another checkpoint or savepoint, or put the file back",
        )


def _ranges(groups: Iterable[RowGroup]) -> Iterator[tuple[int, int]]:
    """The byte ranges (begin, end) of row groups, those that touch as one."""
    begin = end = 0
    for group in groups:
        if group.offset != end:
            if begin < end:
                yield begin, end
            begin = group.offset
        end = group.offset + group.bytes
    if begin < end:
        yield begin, end
