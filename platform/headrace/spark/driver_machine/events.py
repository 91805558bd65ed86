"""Events of a driver's machine: each one answers the last effect. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.journal.resolve import Resolution
from headrace.checkpoint.manifest import Formats, Manifest, StateHandle
from headrace.spark.driver_machine.epoch import Splits, Work


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The journal, and the first steps of the recovery (`checkpoint.journal.resolve`)."""

    journal: Journal
    found: Resolution


@dataclass(frozen=True, slots=True)
class Resolved:
    """The splits of the sources, with start and stop, and what formats have prepared."""

    splits: Splits
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The record is written, and it is the newest."""

    record: Record


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another driver has written to the journal. number: the record that proves it."""

    number: int


@dataclass(frozen=True, slots=True)
class LeftoversRemoved:
    """The files of earlier attempts are deleted."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The work to do now; None: there is none."""

    work: Work | None


@dataclass(frozen=True, slots=True)
class Computed:
    """An epoch's manifest, its states with paths relative to their folder, and the time that its computation took."""

    manifest: Manifest
    states: tuple[StateHandle, ...]
    took_ms: int


@dataclass(frozen=True, slots=True)
class Published:
    """Every row of the epoch is published."""


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
    """The wait is over. asked: a stop was requested."""

    asked: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The effect raised. It may have been performed completely, in part, or not."""

    error: Exception


Event = (
    JournalRead
    | Resolved
    | RecordWritten
    | Replaced
    | LeftoversRemoved
    | Discovered
    | Computed
    | Published
    | Tidied
    | SavepointWritten
    | Swept
    | Woken
    | Failed
)
