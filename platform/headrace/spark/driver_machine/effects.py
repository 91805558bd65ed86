"""What a driver's machine wants done. Shapes only.

Every effect but `End` and `Fail` is answered by one event: the one that it names, or `Failed`. It may be performed once
more by another driver at any time, so each can be repeated.
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
    """Open the sinks, and resolve where the sources begin and end -> Resolved. known: splits of what it starts from."""

    known: Splits


@dataclass(frozen=True, slots=True)
class Append:
    """Append a record, with the time of now -> RecordWritten, Replaced."""

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
    """Look how far the sources go now -> Looked. states: how far they were read."""

    splits: Splits
    states: Mapping[str, SourceState]


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute an epoch: its rows are staged and its states written -> Computed. Nothing of it is visible."""

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
    """Delete what tasks that were killed have left -> Swept. staged: staged rows too, for all are published."""

    staged: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the interval since the last increment's beginning is over, or somebody asks to stop -> Woken."""


@dataclass(frozen=True, slots=True)
class End:
    """The driver is done.

    newest       the newest checkpoint's record, where it was read or written by this driver
    manifest     where the job stands, located; begun_with: where it stood when this driver had taken it over
    epoch        the newest, 0 where there is none
    finished     the record of the job's end; None: the same command goes on
    """

    newest: CheckpointRecord | None
    manifest: Manifest | None
    begun_with: Manifest | None
    epoch: int
    increments: int
    finished: FinishedRecord | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The driver ends with an error: nothing is cleaned up, the same command goes on from the journal."""

    error: Exception


Performed = (
    ReadJournal | Resolve | Append | RemoveLeftovers | Look | Compute | Publish | Tidy | WriteSavepoint | Sweep | Wait
)
"""Effects that an event answers."""
Effect = Performed | End | Fail


@dataclass(frozen=True, slots=True)
class Step:
    """One effect to be performed now. said: lines of progress for the user, before it."""

    effect: Effect
    said: tuple[str, ...] = ()
