"""What a driver's machine receives: the answer to its last effect. Shapes only."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.journal.resolve import Resolution
from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.spark.driver_machine.epoch import Splits, Work


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The journal, and what it says is to be done."""

    journal: Journal
    found: Resolution


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where the sources begin and end."""

    splits: Splits


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The record stands, and nothing is above it."""

    record: Record


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another driver writes the journal. number: the record that shows it."""

    number: int


@dataclass(frozen=True, slots=True)
class LeftoversRemoved:
    """Earlier attempts have left nothing."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What is to be done now; None: nothing."""

    work: Work | None


@dataclass(frozen=True, slots=True)
class Computed:
    """An epoch's manifest, its states relative to the folder they were written to, and how long it took."""

    manifest: Manifest
    states: tuple[StateHandle, ...]
    took_ms: int


@dataclass(frozen=True, slots=True)
class Published:
    """Every row of the epoch is visible."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What is no longer needed is deleted."""


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The savepoint is complete."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The job's folder holds no rows and no temporary files."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The interval is over. asked: somebody wants the driver to stop."""

    asked: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The effect has raised, foreseen or not: it may be done, in part, or not."""

    error: Exception


Event = (
    JournalRead
    | Resolved
    | RecordWritten
    | Replaced
    | LeftoversRemoved
    | Looked
    | Computed
    | Published
    | Tidied
    | SavepointWritten
    | Swept
    | Woken
    | Failed
)
