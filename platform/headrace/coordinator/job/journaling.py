"""Translates effects into journal records, and a loaded journal into an event. Pure.

The machine decides which record is written, and when. The journal decides what the result of a put means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.journal.resolve import resolve
from headrace.coordinator.job.effects import WriteAttempt, WriteCheckpoint, WriteCommitted, WriteFinished, WriteStopping
from headrace.coordinator.job.events import JournalRead
from headrace.coordinator.job.job_state import JobState

WriteRecord = WriteAttempt | WriteCheckpoint | WriteCommitted | WriteStopping | WriteFinished


def draft_of(effect: WriteRecord, at_ms: int) -> Record:
    """Returns the record that an effect requests, without number and writer: `Journal.next` adds those."""
    match effect:
        case WriteAttempt():
            return AttemptRecord(
                at_ms=at_ms,
                attempt=effect.attempt,
                restored_epoch=effect.restored_epoch,
                savepoint=effect.savepoint,
                parallelism=effect.parallelism,
                plan_hash=effect.plan_hash,
                splits=dict(effect.splits),
                transactions=dict(effect.transactions),
                output=dict(effect.output),
                formats=effect.formats,
            )
        case WriteCheckpoint():
            return CheckpointRecord(
                at_ms=at_ms,
                manifest=effect.manifest,
                savepoint=effect.savepoint,
                savepoint_states=effect.savepoint_states,
                took_ms=effect.took_ms,
            )
        case WriteCommitted():
            return CommittedRecord(at_ms=at_ms, epoch=effect.epoch)
        case WriteStopping():
            return StoppingRecord(at_ms=at_ms, savepoint=effect.savepoint, drain=effect.drain)
        case WriteFinished():
            state = end_state(effect.state)
            return FinishedRecord(at_ms=at_ms, state=state, savepoint=effect.savepoint, error=effect.error)
        case _:
            assert_never(effect)


def journal_read(ticket: int, journal: Journal, damaged: Mapping[int, str] | None = None) -> JournalRead:
    """Returns the event for a journal that was just loaded. `damaged`: epochs with missing or damaged files -> reason.

    Raises CheckpointUnusableError.
    """
    found = resolve(journal, damaged)
    return JournalRead(
        ticket=ticket,
        attempt=found.attempt,
        epoch=found.epoch,
        restore=found.restore,
        uncommitted=found.commit_first,
        unfinished=found.unfinished,
        stopping=found.stopping,
        stopped=found.stopped,
        finished=found.finished,
        splits=dict(found.splits),
        parallelism=found.parallelism,
        passed_over=found.passed_over,
        before=found.before,
        transactions=found.transactions,
        output=found.output,
        formats=found.formats,
    )


EndState = Literal["FINISHED", "CANCELED", "FAILED"]


def end_state(state: JobState) -> EndState:
    """Returns the name of a final state in records and results."""
    match state:
        case JobState.FINISHED:
            return "FINISHED"
        case JobState.CANCELED:
            return "CANCELED"
        case _:
            assert state is JobState.FAILED, f"{state} is not final"
            return "FAILED"
