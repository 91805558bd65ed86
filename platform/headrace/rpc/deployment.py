"""The JSON documents inside of control messages: a slot's deployment, and splits with their state."""

from __future__ import annotations

import operator
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from headrace.checkpoint.manifest import Document, SplitDocument, StateHandle
from headrace.connect.format import Side
from headrace.core.config import FileForm
from headrace.core.source_state import AppliedFloor, SplitState


class PeerDocument(Document):
    """The address at which the slot with that index of the attempt listens for rows."""

    index: int
    host: str
    port: int
    unix_path: str = ""


class Deployment(Document):
    """The deployment of a slot: everything it needs to run its slice of a job.

    pipeline     the pipeline in its file form, with secrets; the slot plans it again
    plan_hash    hash of the coordinator's physical plan; the slot's plan must have the same
    slot         this slot's index: it runs subtask `slot` of every task with more than `slot` subtasks
    peers        every slot of the attempt, this one included
    storage      URL of the job's folder; paths of files are relative to it
    restore      state handles of the restored checkpoint that can hold rows of this slot's subtasks; renames are
                 applied. Files with relative paths may be named again by the attempt's checkpoints, and so may those
                 in the folder `claimed`, of a savepoint that the job owns; empty: there is none
    code         URLs of archives and modules of the user, first on the import path in this order
    python_path  folders of this host that come after them (the pipeline file's folder)
    mode         exactly-once: gates align barriers
    hand_over    the end of the input closes no window: sources send no +inf
    formats      node -> side -> what its format has prepared; left out if it is empty
    """

    pipeline: FileForm
    plan_hash: str
    slot: int
    slots: int
    peers: tuple[PeerDocument, ...]
    storage: str
    restore: tuple[StateHandle, ...] = ()
    claimed: str = ""
    floors: tuple[AppliedFloor, ...] = ()
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    mode: Literal["exactly-once", "at-least-once"] = "exactly-once"
    watermark_interval_ms: int = 100
    hand_over: bool = False
    formats: dict[str, dict[Side, dict[str, Any]]] = Field(default={}, exclude_if=operator.not_)


class AssignedSplitDocument(Document):
    """A split for a subtask, with its state in the restored checkpoint (None: it was discovered later)."""

    split: SplitDocument
    state: SplitState | None = None


ASSIGNED_SPLITS = TypeAdapter(tuple[AssignedSplitDocument, ...])
"""JSON list in `AssignSplits.splits`."""
