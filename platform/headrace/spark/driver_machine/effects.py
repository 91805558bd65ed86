"""Effects of a driver's machine. Shapes only.

Every effect but `End` and `Fail` is answered by one event: the one that it names, or `Failed`. Another driver may
perform the same effect once more at any time, so every effect is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord, Record
from headrace.checkpoint.manifest import Manifest
from headrace.core.source_state import SourceState
from headrace.spark.driver_machine.epoch import Epoch, Splits


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Read the journal, and which of its checkpoints are damaged -> JournalRead."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Check the sinks, and resolve where the sources begin and end -> Resolved. known: splits of the job's origin."""

    known: Splits


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
class Look:
    """Ask how far the sources go now -> Looked. states: how far they were read."""

    splits: Splits
    states: Mapping[str, SourceState]


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute an epoch: its rows are staged and its states written -> Computed. It stays invisible."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Publish:
    """Make the rows of a decided epoch visible, each once -> Published."""

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
    """Delete what killed tasks left behind -> Swept. staged: staged rows, too, because all are published."""

    staged: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the interval since the last increment's start is over, or somebody asks to stop -> Woken."""


@dataclass(frozen=True, slots=True)
class End:
    """The driver is done.

    newest     the newest checkpoint's record, if this driver read or wrote one
    manifest   the job's newest located manifest; begun_with: the one when this driver took the job over
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
    """The driver ends with an error. Nothing is cleaned up: the same command continues from the journal."""

    error: Exception


Performed = (
    ReadJournal | Resolve | Append | RemoveLeftovers | Look | Compute | Publish | Tidy | WriteSavepoint | Sweep | Wait
)
"""Effects that an event answers."""
Effect = Performed | End | Fail


@dataclass(frozen=True, slots=True)
class Step:
    """One effect to perform now. said: lines of progress for the user, printed before it."""

    effect: Effect
    said: tuple[str, ...] = ()
