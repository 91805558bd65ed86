"""The status of a HeadraceCluster. Data only."""

from __future__ import annotations

from pydantic import Field

from headrace.core.config import FileModel
from headrace.kubernetes_operator.resources.conditions import Condition


class ClusterStatus(FileModel):
    """state: Leading: a coordinator leads; Starting; Deleting. applied: digest of the spec that was applied last."""

    state: str = ""
    url: str | None = None
    coordinators: str = ""
    workers: int = 0
    applied: str = ""
    observed_generation: int = Field(default=0, alias="observedGeneration")
    conditions: tuple[Condition, ...] = ()
