"""The document of each snapshot of a slot: the files that its states are in, and what else its checkpoint needs. Does
no I/O but by `write`.

Knows neither threads nor epochs that end: `worker.state.uploader` decides when a snapshot is written, and sends
documents on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.checkpoint.manifest import CommittableDocument, FilePart, StateHandle, SubtaskDocument
from headrace.core.group_ranges import group_span
from headrace.state.parquet import FILE_BYTES_MAX
from headrace.state.snapshot import StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.state_files import StateFiles, Write, write_whole


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """The subtasks of one slot and attempt.

    parallelism     task of this slot -> number of its subtasks in the job
    file_bytes_max  as of `write_chunks`
    """

    job: str
    attempt: int
    parallelism: Mapping[str, int]
    max_parallelism: int
    file_bytes_max: int = FILE_BYTES_MAX


class SnapshotDocuments:
    """The documents of one slot and attempt. Snapshots of a subtask must come in the order of epochs."""

    def __init__(self, plan: UploadPlan) -> None:
        self._plan = plan
        self._files: dict[tuple[str, str, str], StateFiles] = {}

    def document(self, snapshot: SubtaskSnapshot, write: Write, *, whole: Write | None = None) -> SubtaskDocument:
        """Writes the chunks that no earlier document names, and returns the document.

        whole: writes the whole state a second time, for a savepoint. Raises what `write` and `whole` raise; the next
        snapshot then writes what is missing.
        """
        states = tuple(self._incremental(snapshot, node, state, write) for node, state in snapshot.states)
        savepoint: tuple[StateHandle, ...] = ()
        if whole is not None:
            savepoint = tuple(self._whole(snapshot, node, state, whole) for node, state in snapshot.states)
        return SubtaskDocument(
            task=snapshot.task,
            subtask=snapshot.subtask,
            states=states,
            savepoint=savepoint,
            sources=dict([snapshot.source]) if snapshot.source is not None else {},
            counters=dict(snapshot.counters),
            committables=tuple(CommittableDocument.of(each) for each in snapshot.committables),
        )

    def _incremental(self, snapshot: SubtaskSnapshot, node: str, state: StateSnapshot, write: Write) -> StateHandle:
        plan = self._plan
        made = StateFiles(plan.max_parallelism, plan.file_bytes_max)
        files = self._files.setdefault((snapshot.task, node, state.name), made)
        files.bring(state, write)
        return self._handle(snapshot, node, state, files.parts(), files.columns())

    def _whole(self, snapshot: SubtaskSnapshot, node: str, state: StateSnapshot, write: Write) -> StateHandle:
        plan = self._plan
        written = write_whole(state, plan.max_parallelism, write=write, file_bytes_max=plan.file_bytes_max)
        return self._handle(snapshot, node, state, *written)

    def _handle(
        self,
        snapshot: SubtaskSnapshot,
        node: str,
        state: StateSnapshot,
        files: tuple[FilePart, ...],
        columns: dict[str, str],
    ) -> StateHandle:
        parallelism = self._plan.parallelism[snapshot.task]
        first, last = group_span(snapshot.subtask, parallelism, self._plan.max_parallelism)
        return StateHandle(
            node=node,
            state=state.name,
            kind=state.kind.value,
            keys=state.keys,
            subtask=snapshot.subtask,
            first_group=first,
            last_group=last,
            columns=columns,
            files=files,
        )
