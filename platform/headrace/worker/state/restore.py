"""A subtask's share of restored state: reads the files that can contain its rows, checks them, keeps its rows.

This module must not know operators: each one interprets its frames in its `restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.core.errors import ExternalError
from headrace.state.parquet import checksum, read_row_groups
from headrace.state.redistribute import needed, share
from headrace.state.snapshot import StateKind

ReadFile = Callable[[str], bytes]
"""Returns the bytes of a file. Raises ExternalError if the file does not exist or storage does not answer."""
NodeStates = dict[str, dict[str, list[pl.DataFrame]]]
"""Node -> state -> frames."""


def restored_states(
    handles: Iterable[StateHandle], nodes: Iterable[str], subtask: int, *, of: int, max_parallelism: int, read: ReadFile
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
    restored: NodeStates = {}
    for (node, state), own in states.items():
        frames = _frames(sorted(own, key=lambda handle: handle.subtask), subtask, of, max_parallelism, read)
        restored.setdefault(node, {})[state] = frames
    return restored


def _frames(
    handles: list[StateHandle], subtask: int, of: int, max_parallelism: int, read: ReadFile
) -> list[pl.DataFrame]:
    """The subtask's rows of one state, out of the handles of all subtasks that wrote it."""
    if StateKind(handles[0].kind) is StateKind.BROADCAST:
        handles = handles[:1]  # every copy is the same
    frames: list[pl.DataFrame] = []
    rows_before = 0
    for handle in handles:
        kind, groups = StateKind(handle.kind), (handle.first_group, handle.last_group)
        if not needed(kind, handle.keys, groups, subtask=subtask, parallelism=of, max_parallelism=max_parallelism):
            continue
        for part in handle.files:
            for frame in checked_rows(part, read):
                own = share(frame, kind, handle.keys, subtask, of, max_parallelism, first_row=rows_before)
                rows_before += frame.height
                if own.height:
                    frames.append(own)
    return frames


def checked_rows(part: FilePart, read: ReadFile) -> list[pl.DataFrame]:
    """The frames of a part. Raises ExternalError for a file that is corrupt or missing."""
    return read_row_groups(_checked(part, read), part.row_groups)


def _checked(part: FilePart, read: ReadFile) -> bytes:
    data = read(part.path)
    if len(data) != part.bytes or checksum(data) != part.checksum:
        raise ExternalError(
            f"{part.path} is damaged: {len(data)} bytes with another checksum than the {part.bytes} bytes written",
            remedy="restore from another checkpoint or savepoint, or put the file back",
        )
    return data
