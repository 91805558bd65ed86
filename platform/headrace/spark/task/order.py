"""The order to the tasks of one Spark job, and the report of each task to the driver. Data only. The order is pickled
once, and the same for all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.manifest import Document, FilePart, StateHandle, SubtaskDocument
from headrace.connect.format import PreparedFormats
from headrace.core.source_state import AppliedFloor
from headrace.rpc.deployment import AssignedSplitDocument

STATE_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceShare:
    """The splits that one partition of a source task reads, and the time that was emitted before (`connect.source`)."""

    splits: tuple[AssignedSplitDocument, ...]
    emitted: int | None = None


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job's run over a range, for its tasks.

    pipeline          file form, with secrets: tasks plan it again, and compare `plan_hash`
    shares            source task -> the share of each of its partitions
    storage           URL of the job's folder: result rows are staged there
    states            URL of the folder for states; None: no state is kept
    restore           located handles of the state that operators begin with
    hand_over         the end of the input closes no window
    deltas            states are written to the job's folder in units, and unchanged units are not read
    publish           result rows will reach the sinks: rows that these could not write are rejected
    closed            sources that have ended permanently: despite `hand_over` no watermark waits for them
    state_bytes_max   more state of a task goes to files on local disk
    python_path       import path entries for the user's functions, where they exist
    formats           what formats have prepared
    """

    job: str
    attempt: int
    epoch: int
    pipeline: Mapping[str, Any] = field(repr=False)
    plan_hash: str
    shares: Mapping[str, tuple[SourceShare, ...]]
    storage: str
    states: str | None = None
    restore: tuple[StateHandle, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    hand_over: bool = False
    deltas: bool = False
    publish: bool = True
    closed: frozenset[str] = frozenset()
    state_bytes_max: int = STATE_BYTES_MAX
    python_path: tuple[str, ...] = field(default=())
    formats: PreparedFormats = field(default_factory=dict)

    def keeps_open(self, source: str) -> bool:
        """Whether the watermark stays at its value at the source's end, in place of advancing to +inf."""
        return self.hand_over and source not in self.closed


class StagedShare(Document):
    """The result rows of one sink that one task staged, in the order of its files. Paths are relative to the job's
    folder.
    """

    sink: str
    subtask: int
    rows: int
    files: tuple[FilePart, ...]

    def followed_by(self, other: StagedShare) -> StagedShare:
        """Returns the share with the rows of `other` after its own."""
        return self.model_copy(update={"rows": self.rows + other.rows, "files": (*self.files, *other.files)})


class TaskReport(Document):
    """The end of one task. level, partition: its place; a task that ran twice may report twice, and either report is
    right.
    """

    level: int
    partition: int
    document: SubtaskDocument
    staged: tuple[StagedShare, ...] = ()
