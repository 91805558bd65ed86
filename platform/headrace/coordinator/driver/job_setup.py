"""The setup of a job's driver. Shapes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.stores.store import ObjectStore
from headrace.coordinator.job.config import JobConfig
from headrace.core.source_state import AppliedFloor
from headrace.processes.spawning import SpawnStarter, Starter

if TYPE_CHECKING:
    from headrace.execution.planning import JobPlans


@dataclass(frozen=True, slots=True)
class JobSetup:
    """A job's fixed facts for its driver.

    store     the job's own folder; storage: its URL
    writer    random token of this run of the coordinator
    starter   starts the job's connector host
    claimed   path of the savepoint that the job owns: it is deleted once the job has a checkpoint of its own
    """

    config: JobConfig
    plans: JobPlans
    store: ObjectStore
    storage: str
    writer: str
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    claimed: str | None = None
    log_folder: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    starter: Starter = field(default_factory=SpawnStarter)
