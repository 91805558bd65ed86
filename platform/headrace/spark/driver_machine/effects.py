"""Effects of a driver's machine. Data only.

Every effect but `End` and `Fail` is answered by one event: the one that it names, or `Failed`. Another driver may
perform the same effect once more at any time, so every effect is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord, Record
from headrace.checkpoint.manifest import Formats, Manifest
from headrace.core.source_state import SourceState
from headrace.spark.driver_machine.epoch import Epoch, Splits


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Read the journal, and which of its checkpoints are damaged -> JournalRead."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Prepare the formats, check the sinks, and resolve the splits of the sources, with start and stop -> Resolved.
    known, formats: splits of the job's origin, and what its formats had prepared."""

    known: Splits
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Append:
    """Append a record, with the current time -> RecordWritten, Replaced."""

    draft: Record


@dataclass(frozen=True, slots=True)
class RemoveLeftovers:
    """Delete files of attempts before this one that no checkpoint of the journal names -> LeftoversRemoved.

    decided: URL of a savepoint that stays
    """

    attempt: int
    decided: str | None


@dataclass(frozen=True, slots=True)
class Discover:
    """Request the current ends of the sources -> Discovered. states: the positions up to which they were read."""

    splits: Splits
    states: Mapping[str, SourceState]


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute an epoch: stage its rows and write its states -> Computed. Nothing becomes visible."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the rows of a decided epoch, each once -> Published."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Tidy:
    """Delete the staged rows of a committed epoch, and checkpoints beyond those retained -> Tidied."""

    manifest: Manifest
    retained: int


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write the manifest of a decided savepoint, and delete files that it does not name -> SavepointWritten."""

    record: CheckpointRecord
    folder: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete the temporary files that killed tasks left -> Swept. staged: delete staged rows, too, because all are
    published."""

    staged: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the interval since the last increment's start is over, or a stop is requested -> Woken."""


@dataclass(frozen=True, slots=True)
class End:
    """The driver has ended without an error.

    newest     the newest checkpoint's record, if this driver read or wrote one
    manifest   the job's newest manifest, located; begun_with: the newest one when this driver began its first epoch
    epoch      the newest, 0 if there is none
    finished   the record of the job's end; None: the same command continues
    """

    newest: CheckpointRecord | None
    manifest: Manifest | None
    begun_with: Manifest | None
    epoch: int
    increments: int
    finished: FinishedRecord | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The driver ends with an error. It deletes nothing: the same command continues from the journal."""

    error: Exception


Performed = (
    ReadJournal
    | Resolve
    | Append
    | RemoveLeftovers
    | Discover
    | Compute
    | Publish
    | Tidy
    | WriteSavepoint
    | Sweep
    | Wait
)
"""Effects that are answered by an event."""
Effect = Performed | End | Fail


@dataclass(frozen=True, slots=True)
class Step:
    """One effect to perform now. said: lines of progress for the user, to be printed before the effect."""

    effect: Effect
    said: tuple[str, ...] = ()
