"""A job of a coordinator, with its resources."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from headrace.checkpoint.paths import joined, savepoint_url
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.models import JobStatus, JobSummary
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.driver.job_log import JobLog
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.driver.job_storage import JobStorage
from headrace.coordinator.figures.checkpoint_log import CheckpointLog
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.job_registry.entry import Entry
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.monitoring.values import JobValues
from headrace.coordinator.rest import job_figures, job_status
from headrace.coordinator.rest.job_status import Submitted
from headrace.coordinator.store.submission import JobSubmission


@dataclass(slots=True)
class KnownJob:
    """A job of this coordinator with its resources; the registry decides its phase.

    entry             the registry's entry of the job
    result            its end, as the job store has it
    last              its status when its driver ended; checkpoints: the log of that driver
    setup             the setup of its next driver
    trying, keeping   tasks: the newest try, the newest write of its end
    tried             set when its first try has ended
    """

    submission: JobSubmission
    history: JobHistory
    storage: JobStorage
    entry: Entry
    result: JobResult | None = None
    driver: JobDriver | None = None
    last: JobStatus | None = None
    checkpoints: CheckpointLog | None = None
    log: JobLog | None = None
    setup: JobSetup | None = None
    trying: asyncio.Task[None] | None = None
    keeping: asyncio.Task[None] | None = None
    tried: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def job(self) -> str:
        """The job's id."""
        return self.submission.job

    @property
    def state(self) -> str:
        """The job's state, as users see it."""
        return self.entry.state if self.driver is None else self.driver.machine.state.value


def monitored(submission: Submitted, driver: JobDriver, now_ms: int) -> JobValues:
    """Returns the values of a driven job for a monitoring system."""
    plan = driver.setup.plans.plan(driver.machine.job.parallelism)
    return job_status.monitored(submission, driver, plan, now_ms)


def running_status(
    submission: Submitted, driver: JobDriver, now_ms: int, *, detailed: frozenset[str] | None = None
) -> JobStatus:
    """Returns the status of a driven job. detailed: nodes whose subtasks and partitions are wanted; None: of all."""
    plan = driver.setup.plans.plan(driver.machine.job.parallelism)
    return job_status.running_status(submission, driver, plan, now_ms, detailed=detailed)


def bottleneck(submission: Submitted, driver: JobDriver) -> Bottleneck:
    """Returns why a driven job is slow."""
    plan = driver.setup.plans.plan(driver.machine.job.parallelism)
    return job_status.bottleneck(submission, driver, plan)


def savepoint_folder(driver: JobDriver, directory: str | None, checkpoints: str) -> str:
    """Returns the URL of a new savepoint folder, below the user's directory or the default storage."""
    where = directory or joined(checkpoints, "savepoints")
    return savepoint_url(where, driver.job, driver.machine.job.epoch + 1, secrets.token_hex(8))


def running_figures(summary: JobSummary, driver: JobDriver, now_ms: int) -> JobFigures:
    """Returns the figures of a driven job."""
    plan = driver.setup.plans.plan(driver.machine.job.parallelism)
    return job_figures.running_figures(summary, driver, plan, now_ms)
