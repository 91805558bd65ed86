"""Spec and status of a HeadraceSnapshot. Data and its checks only."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from headrace.core.config import FileModel
from headrace.kubernetes_operator.resources.conditions import Condition

SnapshotPhase = Literal["Pending", "InProgress", "Completed", "Failed"]


class SnapshotSpec(FileModel):
    """A savepoint of a job that is taken once. A change of the spec takes no other one."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.job == oldSelf.job && (has(self.folder) ? self.folder : '') == "
                    "(has(oldSelf.folder) ? oldSelf.folder : '')",
                    "message": "a snapshot is taken once: create another one",
                }
            ]
        }
    )

    job: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253, description="name of a HeadraceJob")
    folder: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000,
        description="URL for the savepoint; without it: savepoints of the cluster's ledger",
    )
    disposal: Literal["keep", "delete"] = Field(
        default="keep", description="delete: the savepoint is deleted with this object"
    )


class SnapshotStatus(FileModel):
    """phase: Pending, InProgress, then Completed or Failed, which are final.

    job_id      the job whose state it is
    trigger     the coordinator's name for the operation
    location    URL of the savepoint's folder
    """

    phase: SnapshotPhase = "Pending"
    job_id: str | None = Field(default=None, alias="jobId")
    trigger: str | None = None
    location: str | None = None
    completed_at: str | None = Field(default=None, alias="completedAt")
    observed_generation: int = Field(default=0, alias="observedGeneration")
    conditions: tuple[Condition, ...] = ()
