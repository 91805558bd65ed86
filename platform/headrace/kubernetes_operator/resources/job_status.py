"""The status of a HeadraceJob: everything that the operator has to remember. Data only."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace.kubernetes_operator.resources.conditions import Condition
from headrace.kubernetes_operator.resources.run_spec import RunSpec
from headrace.spec.model import FileModel

JobPhase = Literal["Stopped", "Submitting", "Starting", "Running", "Stopping", "Ended"]
StopReason = Literal["upgrade", "suspend", "delete"]
StopWay = Literal["cut", "cancel"]


class Refusal(FileModel):
    """A spec that could not be run. digest: of the spec, which is not tried again as it is."""

    digest: str
    reason: str
    message: str
    at: str


class Stop(FileModel):
    """A stop that is under way. way: at a cut, which keeps what the job has read until then; or at once."""

    reason: StopReason
    way: StopWay


class JobResourceStatus(FileModel):
    """Written by the operator alone.

    phase              as in `operator.decisions.job_machine`
    state              of the job as the cluster names it, or of the phase
    job_id             the last job that was submitted; previous_job_id: the one before
    submissions        number of submissions: each has a key of its own, so it is accepted once however often it is sent
    target             the spec that is being brought up, or runs
    stable_spec        the last spec whose job ran
    origin             path that the next job starts from; None: from nothing
    starts_empty       the submission under way leaves `origin` out, which stays for the way back
    is_rolling_back    target is the stable spec, after a refusal
    refusal            the last spec that could not be run
    stop               while the phase is Stopping
    savepoint_nonce    the last one that a snapshot was made for
    running_since      of the phase Running; periodic snapshots count from it
    """

    phase: JobPhase = "Stopped"
    state: str = ""
    job_id: str | None = Field(default=None, alias="jobId")
    previous_job_id: str | None = Field(default=None, alias="previousJobId")
    observed_generation: int = Field(default=0, alias="observedGeneration")
    submissions: int = 0
    target: RunSpec | None = None
    stable_spec: RunSpec | None = Field(default=None, alias="stableSpec")
    origin: str | None = None
    starts_empty: bool = Field(default=False, alias="startsEmpty")
    is_rolling_back: bool = Field(default=False, alias="isRollingBack")
    refusal: Refusal | None = None
    stop: Stop | None = None
    last_savepoint: str | None = Field(default=None, alias="lastSavepoint")
    savepoint_nonce: int = Field(default=0, alias="savepointNonce")
    running_since: str | None = Field(default=None, alias="runningSince")
    conditions: tuple[Condition, ...] = ()
