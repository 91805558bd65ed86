"""A user's submission, in the form in which the job store keeps it."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ConfigDict, Field

from headrace.checkpoint.manifest import Document
from headrace.core.config import FileForm


class StoredFloor(NamedTuple):
    """An `AppliedFloor` (the watermark assigned to an idle partition) as job.json has it: five values in this order."""

    source: str
    topic: str
    partition: int
    position: int
    floor: int


class SubmissionOptions(Document):
    """The options of a submission.

    parallelism      of nodes that set none themselves
    from_savepoint   URL of the savepoint or checkpoint that the job starts from; claim: the job deletes it once it is
                     not needed
    accepted_topics  topics that may be other ones than it has positions in: they begin as new ones
    renames          node of the savepoint -> node of this pipeline
    code             URLs of the user's archives, beside the job's checkpoints
    python_path      import path entries for the user's functions
    floors           floors of an earlier run
    key              names the submission: there is one job of that key
    """

    # a home may contain jobs of another version of headrace, which had other options
    model_config = ConfigDict(extra="ignore")

    parallelism: int
    from_savepoint: str | None = None
    claim: bool = False
    accepted_topics: tuple[str, ...] = ()
    renames: dict[str, str] = Field(default_factory=dict)
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    floors: tuple[StoredFloor, ...] = ()
    key: str | None = None


class JobSubmission(Document):
    """A submitted job.

    pipeline   the file form, with secrets
    storage    URL of the job's checkpoint folder
    """

    job: str
    name: str
    pipeline: FileForm
    options: SubmissionOptions
    submitted_at_ms: int
    storage: str
