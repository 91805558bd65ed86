"""The records of a job's journal. Data only; `checkpoint.journal.journal` interprets them.

    attempt ─> checkpoint ─> committed ─> checkpoint ─> committed ─> .. ─> [stopping] ─> finished
                  ^                                      │
                  └── attempt <── a failure, a rescale, a new coordinator

Every record carries its number and the token of the writer that put it there.
"""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from headrace.checkpoint.manifest import Document, Formats, Manifest, OutputTotal, SplitDocument, StateHandle


class RecordBase(Document):
    """Fields of all records. `Journal.next` sets number, writer and after: a draft omits them.

    writer   random token of the coordinator's run that wrote it
    after    `<writer>@<at_ms>` of the previous record. It detects a record that a replaced writer put late, at the
             number of a pruned one
    at_ms    epoch ms, by the writer's clock
    """

    number: int = 0
    writer: str = ""
    after: str = ""
    at_ms: int


class AttemptRecord(RecordBase):
    """The start of an attempt. It is written before any name is fenced and before any task starts.

    restored_epoch   the checkpoint that the attempt restores; None: it starts from `savepoint`, or from scratch
    savepoint        manifest URL of the savepoint, or of another job's checkpoint, that it starts from
    transactions     sink -> every name (transactional id) under which this attempt may leave output open
    splits           source -> the splits that its enumerator resolved, once for the job's life
    output           exactly-once sink -> its committed output at the start of this attempt
    formats          what formats have prepared, so that a restart asks nobody; left out if it is empty
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
    formats: Formats = Field(default={}, exclude_if=operator.not_)


class CheckpointRecord(RecordBase):
    """An epoch is complete. This record is the decision to commit it.

    savepoint          URL of the savepoint's folder, if the epoch is also a savepoint
    savepoint_states   the same states in that folder, with paths relative to it, because recovery may have to write the
                       savepoint's manifest
    took_ms            time from the epoch's trigger to this record; None if unknown
    """

    kind: Literal["checkpoint"] = "checkpoint"
    manifest: Manifest
    savepoint: str | None = None
    savepoint_states: tuple[StateHandle, ...] = ()
    took_ms: int | None = None


class CommittedRecord(RecordBase):
    """All output of the epoch is committed."""

    kind: Literal["committed"] = "committed"
    epoch: int


class StoppingRecord(RecordBase):
    """The user's request to stop the job, which survives a crash. savepoint: URL of the folder of its savepoint; None:
    the stop takes only a checkpoint. drain: time advances to its end before, so that every window fires."""

    kind: Literal["stopping"] = "stopping"
    savepoint: str | None = None
    drain: bool = False


class FinishedRecord(RecordBase):
    """The end of the job. savepoint: URL of the savepoint that a stop returned."""

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
