"""The records of a job's journal. Data only; `checkpoint.journal.journal` interprets them.

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
    """Fields of all records. `Journal.next` sets number, writer and after: a draft omits them.

    writer   random token of the coordinator's run that wrote it
    after    `<writer>@<at_ms>` of the previous record: detects a late record in the place of a pruned one
    """

    number: int = 0
    writer: str = ""
    after: str = ""
    at_ms: int


class AttemptRecord(RecordBase):
    """A (re)start: written before any name is fenced or a task starts.

    restored_epoch   the epoch it starts from, or None: from scratch, or from `savepoint`
    savepoint        manifest URL of a foreign savepoint or checkpoint that it starts from
    transactions     sink -> every name (transactional id) under which this attempt may leave output open
    splits           source -> what its enumerator resolved, once for the job's life
    output           exactly-once sink -> its committed output at the start of this attempt
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
    took_ms            from its trigger to this decision; None if unknown
    """

    kind: Literal["checkpoint"] = "checkpoint"
    manifest: Manifest
    savepoint: str | None = None
    savepoint_states: tuple[StateHandle, ...] = ()
    took_ms: int | None = None


class CommittedRecord(RecordBase):
    """All committables of the epoch are visible."""

    kind: Literal["committed"] = "committed"
    epoch: int


class StoppingRecord(RecordBase):
    """The user's request to stop, which survives a crash. `savepoint`: URL of its folder, or None: a checkpoint
    only."""

    kind: Literal["stopping"] = "stopping"
    savepoint: str | None = None
    drain: bool = False


class FinishedRecord(RecordBase):
    """The end: FINISHED, CANCELED or FAILED. `savepoint`: the path that a stop returned."""

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
