"""The setup of a job's driver. Data only."""

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
    """The parts of a job that do not change while its driver runs.

    store         the job's folder in checkpoint storage; storage: its URL
    writer        random token of this driver, for journal records
    code          URLs of the user's archives; python_path: import path entries for the user's functions
    floors        watermarks that an earlier run assigned to idle partitions, to be applied again
    claimed       path of the savepoint that the job owns: it is deleted once a checkpoint of the job is committed
    log_folder    folder for the connector host's log; None: no log
    environment   environment variables added for the connector host
    starter       starts the job's connector host
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
