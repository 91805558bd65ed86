"""A subtask's share of restored state: reads the row groups that can contain its rows, verifies them, keeps its rows.

    footer ─> row groups of the subtask's key groups ─> their byte ranges, each verified ─> rows of these key groups

A file of an earlier version, whose footer describes no row groups, is read and verified as a whole. So is every row
group of a state that is not divided by key.

This module must not know operators: each one interprets its frames in its `restore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.own_handles import can_hold
from headrace.checkpoint.part_reader import PartReader, ReadRange
from headrace.core.group_ranges import group_span
from headrace.state.redistribute import share
from headrace.state.row_groups import RowGroups
from headrace.state.snapshot import StateKind

NodeStates = dict[str, dict[str, list[pl.DataFrame]]]
"""Node -> state -> frames."""


def restored_states(
    handles: Iterable[StateHandle],
    nodes: Iterable[str],
    subtask: int,
    *,
    of: int,
    max_parallelism: int,
    read: ReadRange,
) -> NodeStates:
    """The share of subtask `subtask`, out of `of`, of the states of these nodes.

    A state whose rows all belong to other subtasks has an empty list of frames. Raises ExternalError for a file that is
    corrupt or missing.
    """
    wanted = set(nodes)
    states: dict[tuple[str, str], list[StateHandle]] = {}
    for handle in handles:
        if handle.node in wanted:
            states.setdefault((handle.node, handle.state), []).append(handle)
    owner = _Owner(subtask, of, max_parallelism)
    restored: NodeStates = {}
    for (node, state), own in states.items():
        restored.setdefault(node, {})[state] = _frames(sorted(own, key=lambda handle: handle.subtask), owner, read)
    return restored


def checked_rows(part: FilePart, read: ReadRange) -> list[pl.DataFrame]:
    """The frames of a part. Raises ExternalError for a file that is corrupt or missing."""
    opened = PartReader(part, read)
    return opened.rows(opened.row_groups)


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


def _frames(handles: list[StateHandle], owner: _Owner, read: ReadRange) -> list[pl.DataFrame]:
    """The subtask's rows of one state, out of the handles of all subtasks that wrote it."""
    if StateKind(handles[0].kind) is StateKind.BROADCAST:
        handles = handles[:1]  # every copy is the same
    frames: list[pl.DataFrame] = []
    rows_before = 0
    for handle in handles:
        if not can_hold(handle, owner.subtask, of=owner.of, max_parallelism=owner.max_parallelism):
            continue
        for part in handle.files:
            opened = PartReader(part, read, f" of state {handle.state!r} of node {handle.node!r}")
            if opened.groups is not None and opened.groups.max_parallelism == owner.max_parallelism:
                frames += _by_key_group(opened, opened.groups, handle, owner)
                continue
            for frame in opened.rows(opened.row_groups):
                own = owner.share(frame, handle, rows_before)
                rows_before += frame.height
                if own.height:
                    frames.append(own)
    return frames


def _by_key_group(part: PartReader, groups: RowGroups, handle: StateHandle, owner: _Owner) -> Iterator[pl.DataFrame]:
    """The subtask's rows of a part whose row groups have ranges of key groups, a frame for each chunk."""
    span = group_span(owner.subtask, owner.of, owner.max_parallelism)
    runs = list(groups.runs([number for number in part.row_groups if groups.groups[number].meets(span)]))
    frames = part.rows([number for run in runs for number in run])
    for run, frame in zip(runs, frames, strict=True):
        members = [groups.groups[number] for number in run]
        if all(member.lies_within(span) for member in members):
            yield frame
            continue
        # rows are sorted by key group, so only those of the first and the last row group can belong to other subtasks
        pieces, begin = [], 0
        for member in members:
            piece = frame.slice(begin, member.rows)
            pieces.append(piece if member.lies_within(span) else owner.share(piece, handle))
            begin += member.rows
        own = pl.concat(pieces)
        if own.height:
            yield own
