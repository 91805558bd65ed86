"""Savepoints and checkpoints on disk with real state in them: operators fed with rows, their snapshots written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.checkpoint.manifest import FilePart, Manifest, StateHandle
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.core.group_ranges import group_span
from headrace.operators.operator import Operator
from headrace.state.parquet import checksum, write_chunks
from headrace.state.snapshot import StateSnapshot
from support.storage.checkpoints import manifest


def write_states(
    folder: Path, node: str, snapshots: Sequence[Sequence[StateSnapshot]], max_parallelism: int = 128
) -> tuple[StateHandle, ...]:
    """The states of a node, one snapshot for each of its subtasks, in files below `folder`/state."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    handles = []
    for subtask, snapshot in enumerate(snapshots):
        first, last = group_span(subtask, len(snapshots), max_parallelism)
        for state in snapshot:
            parts: list[FilePart] = []
            columns: dict[str, str] = {}
            for number, file in enumerate(write_chunks(state.chunks)):
                path = f"state/1-1-{node}-{subtask}-{state.name}{number}.parquet"
                (folder / path).write_bytes(file.data)
                groups = tuple(range(len(file.rows)))
                parts.append(
                    FilePart(
                        path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data),
                        checksum=checksum(file.data),
                    )
                )  # fmt: skip
                columns |= file.columns
            handles.append(
                StateHandle(
                    node=node, state=state.name, kind=state.kind, keys=state.keys, subtask=subtask, first_group=first,
                    last_group=last, columns=columns, files=tuple(parts),
                )
            )  # fmt: skip
    return tuple(handles)


def savepoint_with(folder: Path, nodes: Mapping[str, Sequence[Operator]]) -> Manifest:
    """A savepoint at `folder` with what the operators (node -> its subtasks) hold."""
    states = tuple(
        handle
        for node, operators in nodes.items()
        for handle in write_states(folder, node, [operator.snapshot() for operator in operators])
    )
    made = manifest(3).model_copy(update={"kind": "savepoint", "states": states})
    write_savepoint(made, str(folder))
    return made
