"""The report of a Spark task to the driver: documents only."""

from __future__ import annotations

from headrace.checkpoint.manifest import Document, FilePart, SubtaskDocument


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
