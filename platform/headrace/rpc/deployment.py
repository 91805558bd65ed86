"""The documents inside of control messages: what a slot is deployed with, and splits with their state."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import TypeAdapter

from headrace.checkpoint.manifest import Document, SplitDocument, StateHandle
from headrace.core.source_state import AppliedFloor, SplitState


class PeerDocument(Document):
    """Where the slot with that index of the attempt listens for rows."""

    index: int
    host: str
    port: int
    unix_path: str = ""


class Deployment(Document):
    """All that a slot needs to run its slice of a job: the subtasks with its index.

    pipeline     the pipeline in its file form, with secrets; the slot plans it again
    plan_hash    of the physical plan that the coordinator made: the slot's must be the same
    slot         this slot's index: it runs subtask `slot` of every task that has so many
    peers        every slot of the attempt, this one included
    storage      URL of the job's folder; paths of files are relative to it
    restore      state handles of the restored checkpoint with absolute paths; renames are applied
    code         URLs of archives and modules of the user, first on the import path in this order
    python_path  folders of this host that come after them (the pipeline file's folder)
    mode         exactly-once: gates align barriers
    hand_over    the end of the input closes no window: sources send no +inf
    """

    pipeline: dict[str, Any]
    plan_hash: str
    slot: int
    slots: int
    peers: tuple[PeerDocument, ...]
    storage: str
    restore: tuple[StateHandle, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    mode: Literal["exactly-once", "at-least-once"] = "exactly-once"
    watermark_interval_ms: int = 100
    hand_over: bool = False


class AssignedSplitDocument(Document):
    """A split for a subtask, with what the restored checkpoint knows of it."""

    split: SplitDocument
    state: SplitState | None = None


ASSIGNED_SPLITS = TypeAdapter(tuple[AssignedSplitDocument, ...])
"""JSON list in `AssignSplits.splits`."""
