"""Manifests and journal records for tests, with as little in them as a test cares for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.checkpoint.journal.journal import Journal, Written
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, CommittedRecord, Record
from headrace.checkpoint.manifest import CommittableDocument, FilePart, Manifest, StateHandle
from headrace.core.group_ranges import group_span
from headrace.state.parquet import checksum


def part(path: str, data: bytes = b"data") -> FilePart:
    return FilePart(path=path, row_groups=(0,), rows=1, bytes=len(data), checksum=checksum(data))


def handle_of(
    kind: str, subtask: int, of: int, max_parallelism: int, *, keys: tuple[str, ...] = ("k",), files: int = 1
) -> StateHandle:
    """The handle of a state as subtask `subtask` out of `of` writes it."""
    first, last = group_span(subtask, of, max_parallelism)
    parts = tuple(part(f"/job/state/1-1-hourly-{subtask}-{number:032x}.parquet") for number in range(files))
    return handle(*parts).model_copy(
        update={"kind": kind, "keys": keys, "subtask": subtask, "first_group": first, "last_group": last}
    )


def handle(*files: FilePart, node: str = "hourly", state: str = "panes") -> StateHandle:
    return StateHandle(
        node=node,
        state=state,
        kind="keyed",
        keys=("origin",),
        subtask=0,
        first_group=0,
        last_group=127,
        columns={"origin": "String", "n": "Int64"},
        files=files,
    )


def manifest(
    epoch: int,
    attempt: int = 1,
    *,
    files: Sequence[str] = (),
    sinks: Sequence[str] = (),
    job: str = "job",
    node: str = "hourly",
) -> Manifest:
    return Manifest(
        kind="checkpoint",
        job=job,
        pipeline="flights",
        epoch=epoch,
        attempt=attempt,
        created_at_ms=epoch * 1000,
        version="1.0",
        plan_hash="plan",
        max_parallelism=128,
        parallelism={node: 1},
        nodes={"flights": "source", node: "aggregate", "delays": "sink"},
        states=(handle(*(part(path) for path in files), node=node),),
        sources={},
        splits={},
        committables=tuple(CommittableDocument(sink=sink, subtask=0, epoch=epoch, payload={}) for sink in sinks),
    )


def attempt(number: int, restored: int | None = None, *, savepoint: str | None = None, at_ms: int = 0) -> AttemptRecord:
    return AttemptRecord(
        attempt=number, restored_epoch=restored, savepoint=savepoint, parallelism=1, plan_hash="plan", at_ms=at_ms
    )


def checkpoint(epoch: int, number: int = 1, **about: Sequence[str]) -> CheckpointRecord:
    return CheckpointRecord(manifest=manifest(epoch, number, **about), at_ms=0)  # type: ignore[arg-type]


def committed(epoch: int) -> CommittedRecord:
    return CommittedRecord(epoch=epoch, at_ms=0)


def history(*drafts: Record, writer: str = "one") -> Journal:
    """The journal after one writer has put these."""
    journal = Journal()
    for draft in drafts:
        verdict = journal.on_put(journal.next(draft, writer), None, ())
        assert isinstance(verdict, Written)
        journal = verdict.journal
    return journal
