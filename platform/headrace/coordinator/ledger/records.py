"""The records of a cluster's ledger. Data only; `ledger` interprets them.

Each record carries its number, the token of the coordinator's run that put it there, and the changes that it makes.
Records that a snapshot contains are deleted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from headrace.checkpoint.manifest import Document
from headrace.coordinator.job.history import JobHistory
from headrace.rpc.messages import Failure

FORMAT = 1
"""Version of records, snapshots and of what is sealed in them. A coordinator takes no ledger over that has a greater
one. It rises with every change after which an earlier version would misread a ledger: a new kind of change, a new
field, a new meaning; and with the format of manifests, because an earlier version would fail the jobs.
"""


class JobResult(Document):
    """The end of a job. `savepoint`: URL of the savepoint that a stop returned."""

    state: Literal["FINISHED", "CANCELED", "FAILED"]
    ended_at_ms: int
    savepoint: str | None = None
    failure: Failure | None = None


class Identified(Document):
    """The cluster's identity, which replaces the one before.

    cluster   the cluster's id
    tokens    its tokens, encrypted; None: they are files of the coordinator's home
    """

    kind: Literal["identified"] = "identified"
    cluster: str
    tokens: str | None = None


class ApplicationEnded(Document):
    """The program of the application that this cluster serves has ended, once and for all coordinators."""

    kind: Literal["application-ended"] = "application-ended"
    exit_code: int


class TriggerKept(Document):
    """A long operation that a user requested, as it stands. It replaces the record before, unless that one was final.

    directory, drain   of a stop
    path, failure      how it has ended
    """

    kind: Literal["trigger"] = "trigger"
    trigger: str
    job: str
    operation: Literal["savepoint", "stop", "cancel", "rescale"]
    directory: str | None = None
    drain: bool = False
    status: Literal["in-progress", "completed", "failed"] = "in-progress"
    path: str | None = None
    failure: Failure | None = None

    @property
    def is_final(self) -> bool:
        """Whether it has completed or failed."""
        return self.status != "in-progress"


class Submitted(Document):
    """A job was accepted. `sealed`: its submission, encrypted, because pipelines contain secrets."""

    kind: Literal["submitted"] = "submitted"
    job: str
    sealed: str


class Discarded(Document):
    """A submission counts as never accepted: its client was answered with an error."""

    kind: Literal["discarded"] = "discarded"
    job: str


class HistoryKept(Document):
    """A job's history, which replaces the one before."""

    kind: Literal["history"] = "history"
    job: str
    history: JobHistory


class Ended(Document):
    """A job has ended."""

    kind: Literal["ended"] = "ended"
    job: str
    result: JobResult


class EndWithdrawn(Document):
    """A job's end counts as never recorded."""

    kind: Literal["end-withdrawn"] = "end-withdrawn"
    job: str


class Forgotten(Document):
    """An ended job is not kept any more."""

    kind: Literal["forgotten"] = "forgotten"
    job: str


JobChange = Submitted | Discarded | HistoryKept | Ended | EndWithdrawn | Forgotten
Change = Identified | ApplicationEnded | TriggerKept | JobChange


class LedgerRecord(Document):
    """One record.

    writer    random token of the coordinator's run that wrote it
    at_ms     epoch ms, by the writer's clock
    changes   in order; empty in a writer's first record, with which it takes the ledger over
    version   of headrace, of the writer; for messages
    """

    format: int = FORMAT
    version: str = ""
    number: int
    writer: str
    at_ms: int
    changes: tuple[Annotated[Change, Field(discriminator="kind")], ...] = ()


class LedgerJob(Document):
    """A job as the ledger has it."""

    job: str
    sealed: str
    history: JobHistory = JobHistory()
    result: JobResult | None = None


class Snapshot(Document):
    """The ledger after the record with this number; jobs and triggers in the order in which they came."""

    format: int = FORMAT
    version: str = ""
    number: int
    identity: Identified | None = None
    application_exit_code: int | None = None
    jobs: tuple[LedgerJob, ...]
    triggers: tuple[TriggerKept, ...] = ()


RECORD: TypeAdapter[LedgerRecord] = TypeAdapter(LedgerRecord)
