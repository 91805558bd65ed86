"""Spec and status of a HeadraceJob, and the part of the spec that determines a job. Data and its checks only. Pure.

The status holds everything that the operator remembers.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from headrace.core.config import Duration, FileModel
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.resources.conditions import Condition
from headrace.spec.fields import Parallelism

_DIGEST_CHARACTERS = 16


class RunSpec(FileModel):
    """A job as it is submitted. Two of them with the same `job_key` are the same job.

    pipeline       text of the pipeline file
    cluster        name of the cluster that runs it
    variables      name of the Secret with the values of its variables; None: it has none
    restart_nonce  a change of it restarts the job
    """

    pipeline: str
    cluster: str
    variables: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = Field(default=None, alias="maxParallelism")
    allow_dropped_state: bool = Field(default=False, alias="allowDroppedState")
    accept_new_topics: tuple[str, ...] = Field(default=(), alias="acceptNewTopics")
    restart_nonce: int = Field(default=0, alias="restartNonce")

    @property
    def job_key(self) -> str:
        """Differs between specs that need different jobs. Fields that only a submission needs are excluded."""
        return _digest(self.model_dump(exclude={"allow_dropped_state", "accept_new_topics"}))

    @property
    def digest(self) -> str:
        """Differs between specs: a refused spec is not tried again until its digest changes."""
        return _digest(self.model_dump())


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]


UpgradeMode = Literal["savepoint", "last-state", "stateless"]
_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class ConfigMapKey(FileModel):
    """A key of a ConfigMap in the namespace of the job."""

    name: str = Field(pattern=_NAME, max_length=253)
    key: str = Field(default="pipeline.yaml", min_length=1, max_length=253)


class PipelineFrom(FileModel):
    """Where the text of the pipeline file stands. The job is upgraded when the text changes."""

    config_map: ConfigMapKey = Field(alias="configMap")


class VariablesFrom(FileModel):
    """Where the values of `${NAME}` in the pipeline stand. A change of them is not followed: a restartNonce is."""

    secret: str = Field(pattern=_NAME, max_length=253, description="name of a Secret in the namespace of the job")


class PeriodicSnapshots(FileModel):
    """Snapshots that the operator takes by the clock."""

    every_ms: Duration = Field(gt=0, alias="every", description="time between two of them")
    keep: int = Field(default=3, ge=1, le=100, description="completed ones that stay; older ones are deleted")


class JobSpec(FileModel):
    """A job of a cluster. Either `pipeline` or `pipelineFrom`, either `cluster` or `ownCluster`."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {"oneOf": [{"required": ["pipeline"]}, {"required": ["pipelineFrom"]}]},
                {"oneOf": [{"required": ["cluster"]}, {"required": ["ownCluster"]}]},
            ],
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.ownCluster) == has(oldSelf.ownCluster)",
                    "message": "a job stays in its own cluster, or in another one: delete it and create it anew",
                }
            ],
        }
    )

    pipeline: str | dict[str, Any] | None = Field(
        default=None,
        description="the pipeline file, as text or as an object",
        # a schema of Kubernetes cannot say `text or object`
        json_schema_extra={"anyOf": [], "x-kubernetes-preserve-unknown-fields": True},
    )
    pipeline_from: PipelineFrom | None = Field(default=None, alias="pipelineFrom")
    variables_from: VariablesFrom | None = Field(default=None, alias="variablesFrom")
    cluster: str | None = Field(
        default=None, pattern=_NAME, max_length=253, description="name of a cluster in this namespace"
    )
    own_cluster: ClusterSpec | None = Field(
        default=None, alias="ownCluster", description="a cluster for this job alone, which goes with it"
    )
    parallelism: int | None = Field(default=None, ge=1, description="of nodes that set none themselves")
    max_parallelism: Parallelism | None = Field(
        default=None,
        alias="maxParallelism",
        description="number of key groups, instead of the pipeline's; state of another one is hashed anew",
    )
    state: Literal["running", "suspended"] = Field(default="running", description="suspended: stopped with its state")
    upgrade_mode: UpgradeMode = Field(
        default="savepoint",
        alias="upgradeMode",
        description="savepoint: stop at a cut; last-state: cancel, and go on from the last checkpoint; "
        "stateless: cancel, and begin anew",
    )
    savepoint_folder: str | None = Field(
        default=None,
        min_length=1,
        alias="savepointFolder",
        description="URL for savepoints; without it a stop keeps the job's last checkpoint",
    )
    initial_savepoint: str | None = Field(
        default=None, min_length=1, alias="initialSavepoint", description="that the first job starts from"
    )
    allow_dropped_state: bool = Field(
        default=False, alias="allowDroppedState", description="start although state fits no node"
    )
    accept_new_topics: tuple[str, ...] = Field(
        default=(),
        alias="acceptNewTopics",
        description="topics that may be other ones than the state is of: they begin at their start",
    )
    restart_nonce: int = Field(default=0, ge=0, alias="restartNonce", description="a change restarts the job")
    savepoint_nonce: int = Field(default=0, ge=0, alias="savepointNonce", description="a change takes a snapshot")
    snapshots: PeriodicSnapshots | None = None
    on_delete: Literal["savepoint", "cancel"] = Field(
        default="cancel", alias="onDelete", description="how the job ends when this object is deleted"
    )

    @model_validator(mode="after")
    def _require_one_of_each(self) -> Self:
        if (self.pipeline is None) == (self.pipeline_from is None):
            raise ValueError("write either `pipeline` or `pipelineFrom`")
        if (self.cluster is None) == (self.own_cluster is None):
            raise ValueError("write either `cluster` or `ownCluster`")
        return self


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
