"""The journal's records: what a job's history consists of. Shapes only; `checkpoint.journal.journal` decides.

    attempt ─> checkpoint ─> committed ─> checkpoint ─> committed ─> .. ─> [stopping] ─> finished
                  ^                                      │
                  └── attempt <── a failure, a rescale, a new coordinator

Every record carries its number and the token of the writer that put it there.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from headrace.checkpoint.manifest import Document, Manifest, OutputTotal, SplitDocument, StateHandle


class RecordBase(Document):
    """What all records have. `Journal.next` fills in number, writer and after: a draft leaves them out.

    writer   random token of the coordinator's run that wrote it
    after    `<writer>@<at_ms>` of the record before: tells a late record that was put where a pruned one had been
    """

    number: int = 0
    writer: str = ""
    after: str = ""
    at_ms: int


class AttemptRecord(RecordBase):
    """A (re)start: written before anything is fenced or a task starts.

    restored_epoch   the epoch it starts from, or None: from nothing, or from `savepoint`
    savepoint        manifest URL of a foreign savepoint or checkpoint that it starts from
    transactions     sink -> every name (transactional id) under which this attempt may leave output open
    splits           source -> what its enumerator resolved, once for the job's life
    output           exactly-once sink -> what it had committed where this attempt begins
    """

    kind: Literal["attempt"] = "attempt"
    attempt: int
    restored_epoch: int | None = None
    savepoint: str | None = None
    parallelism: int
    plan_hash: str
    transactions: dict[str, tuple[str, ...]] = Field(default={})
    splits: dict[str, tuple[SplitDocument, ...]] = Field(default={})
    output: dict[str, OutputTotal] = Field(default={})


class CheckpointRecord(RecordBase):
    """An epoch is complete: the decision to commit it.

    savepoint          URL of the savepoint folder that it also fills
    savepoint_states   the same states in that folder, paths relative to it: recovery may have to finish the savepoint
    took_ms            from its trigger to this decision; None where it was not told
    """

    kind: Literal["checkpoint"] = "checkpoint"
    manifest: Manifest
    savepoint: str | None = None
    savepoint_states: tuple[StateHandle, ...] = ()
    took_ms: int | None = None


class CommittedRecord(RecordBase):
    """Everything that the epoch's committables name is visible."""

    kind: Literal["committed"] = "committed"
    epoch: int


class StoppingRecord(RecordBase):
    """The user asked to stop: a crash does not undo it. `savepoint`: URL of its folder, or None: a checkpoint only."""

    kind: Literal["stopping"] = "stopping"
    savepoint: str | None = None
    drain: bool = False


class FinishedRecord(RecordBase):
    """The end: FINISHED, CANCELED or FAILED. `savepoint`: what a stop handed out."""

    kind: Literal["finished"] = "finished"
    state: Literal["FINISHED", "CANCELED", "FAILED"]
    savepoint: str | None = None
    error: str | None = None


Record = Annotated[
    AttemptRecord | CheckpointRecord | CommittedRecord | StoppingRecord | FinishedRecord, Field(discriminator="kind")
]
RECORD: TypeAdapter[AttemptRecord | CheckpointRecord | CommittedRecord | StoppingRecord | FinishedRecord] = TypeAdapter(
    Record
)
"""Reads and writes any record as JSON."""
