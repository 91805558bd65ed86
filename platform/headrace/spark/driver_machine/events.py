"""Events of a driver's machine: the answer to its last effect. Shapes only."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.journal.resolve import Resolution
from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.spark.driver_machine.epoch import Splits, Work


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The journal, and the resolution of what to do first."""

    journal: Journal
    found: Resolution


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where the sources begin and end."""

    splits: Splits


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The record stands, and it is the newest."""

    record: Record


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another driver writes the journal. number: the record that shows it."""

    number: int


@dataclass(frozen=True, slots=True)
class LeftoversRemoved:
    """The files of earlier attempts are deleted."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The work to do now; None: nothing."""

    work: Work | None


@dataclass(frozen=True, slots=True)
class Computed:
    """An epoch's manifest, its states relative to their folder, and how long it took."""

    manifest: Manifest
    states: tuple[StateHandle, ...]
    took_ms: int


@dataclass(frozen=True, slots=True)
class Published:
    """Every row of the epoch is visible."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """The files that are no longer needed are deleted."""


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The savepoint is complete."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The job's folder has no staged rows and no temporary files."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The interval is over. asked: somebody asked the driver to stop."""

    asked: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The effect raised. It may be done completely, in part, or not at all."""

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
