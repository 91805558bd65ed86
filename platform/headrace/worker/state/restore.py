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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.own_handles import can_hold
from headrace.checkpoint.part_reader import PartReader, ReadRange
from headrace.checkpoint.paths import is_absolute
from headrace.core.group_ranges import group_span
from headrace.state.redistribute import share
from headrace.state.row_groups import RowGroups
from headrace.state.snapshot import RestoredFrame, StateKind, StoredFile, StoredRows

NodeStates = dict[str, dict[str, list[RestoredFrame]]]
"""Node -> state -> frames."""


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
    opened = PartReader(part, read)
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
            place = f" of state {handle.state!r} of node {handle.node!r}"
            opened = PartReader(part, files.read, place, folder=files.folder)
            if opened.groups is not None and opened.groups.max_parallelism == owner.max_parallelism:
                frames += _by_key_group(opened, opened.groups, handle, owner)
                continue
            for frame, origin in _chunks(opened, handle.keys):
                own = owner.share(frame, handle, rows_before)
                rows_before += frame.height
                if own.height:
                    frames.append(RestoredFrame(own, origin if own.height == frame.height else None))
    return frames


def _by_key_group(part: PartReader, groups: RowGroups, handle: StateHandle, owner: _Owner) -> Iterator[RestoredFrame]:
    """The subtask's rows of a part whose row groups have ranges of key groups. For each chunk at most two frames: the
    row groups that lie within the subtask's key groups, and what is cut out of the others."""
    span = group_span(owner.subtask, owner.of, owner.max_parallelism)
    within = [group.lies_within(span) for group in groups.groups]
    rows_within = sum(group.rows for group, own in zip(groups.groups, within, strict=True) if own)
    file = _stored(part.part, handle.keys, rows_within)
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


def _chunks(part: PartReader, keys: tuple[str, ...]) -> Iterator[tuple[pl.DataFrame, StoredRows | None]]:
    """A frame for each chunk, with its origin unless its rows are sorted by key: then it is by another
    `max_parallelism`."""
    frames, groups = part.rows(part.row_groups), part.groups
    if groups is None or groups.max_parallelism is not None:
        yield from ((frame, None) for frame in frames)
        return
    file = _stored(part.part, keys, sum(group.rows for group in groups.groups))
    for run, frame in zip(groups.runs(part.row_groups), frames, strict=True):
        yield frame, None if file is None else StoredRows(file, tuple(run), frame.height)


def _stored(part: FilePart, keys: tuple[str, ...], rows: int) -> StoredFile | None:
    """The file as checkpoints of the job may name it; None: it is not the job's own. rows: as in `StoredFile`."""
    return None if is_absolute(part.path) else StoredFile(part.path, part.bytes, part.checksum, keys, rows)
