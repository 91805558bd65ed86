"""Builds the REST API's job documents from the state of a driver and the status messages of its slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from headrace.client.figure_models import Bottleneck
from headrace.client.models import (
    CompletedCheckpoint,
    DataWarningState,
    EndedBy,
    ExceptionInfo,
    JobStatus,
    JobSummary,
    StatePlaces,
    TransactionState,
    WaitingState,
    moment,
)
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.figures.bottleneck.decide import decide
from headrace.coordinator.figures.bottleneck.gather import JobNow, live_view
from headrace.coordinator.figures.bottleneck.verdict import NotRunning
from headrace.coordinator.figures.bottleneck.view import LiveView
from headrace.coordinator.figures.bottleneck.wording import Report, report
from headrace.coordinator.figures.standing_time import SourceWaiting, Waiting, source_waits
from headrace.coordinator.job.history import ExceptionEntry, JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.monitoring.values import JobValues
from headrace.coordinator.rest.checkpoint_status import checkpoint_states
from headrace.coordinator.rest.node_status import job_rates, node_statuses
from headrace.coordinator.store.submission import JobSubmission
from headrace.rpc.messages import Failure

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan


def summary(submission: Submitted, state: str, result: JobResult | None, history: JobHistory) -> JobSummary:
    """Returns a job's entry in the list of jobs."""
    return JobSummary(
        job_id=submission.job,
        name=submission.name,
        state=state,
        started_at=moment(submission.submitted_at_ms),
        ended_at=None if result is None else moment(result.ended_at_ms),
        ended_by=ended_by(state, history),
    )


def ended_by(state: str, history: JobHistory) -> EndedBy | None:
    """Returns why a job ended; None: it has not, or its history does not tell."""
    outcome = history.attempts[-1].outcome if history.attempts else None
    match state, outcome:
        case "CANCELED", _:
            return "cancel"
        case "FAILED", _:
            return "failure"
        case "FINISHED", "STOPPED":
            return "stop"
        case "FINISHED", "FINISHED":
            return "input"
        case _:
            return None


class Submitted(Protocol):
    """A job as it was submitted. submitted_at_ms: epoch ms."""

    @property
    def job(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """The pipeline's name."""
        ...

    @property
    def submitted_at_ms(self) -> int:
        """When it was submitted (epoch ms)."""
        ...


def running_status(
    submission: Submitted,
    driver: JobDriver,
    plan: PhysicalPlan,
    now_ms: int,
    *,
    detailed: frozenset[str] | None = None,
) -> JobStatus:
    """Returns the status of a job that has not ended. detailed: as of `node_statuses`."""
    view = driver.machine.view
    failure = driver.machine.job.failure
    checkpoints = checkpoint_states(driver.checkpoints, now_ms)
    rate_in, rate_out = job_rates(plan, driver.figures)
    return JobStatus(
        job_id=submission.job,
        name=submission.name,
        state=view.state.value,
        attempt=view.attempt,
        parallelism=view.parallelism,
        opened=view.opened,
        nodes=node_statuses(plan, driver, now_ms, detailed=detailed),
        checkpoint=completed(driver),
        failure=None if failure is None else failure_text(failure),
        started_at=moment(submission.submitted_at_ms),
        restarts=driver.machine.job.restarts,
        message=driver.message or None,
        alarm=view.alarm,
        running_ms=driver.figures.running_ms,
        rows_in_per_s=round(rate_in.recent, 1),
        rows_out_per_s=round(rate_out.recent, 1),
        rows_in_per_s_attempt=round(rate_in.attempt, 1),
        rows_out_per_s_attempt=round(rate_out.attempt, 1),
        ended_by=ended_by(view.state.value, driver.history),
        transactions=tuple(
            TransactionState(
                sink=each.sink, subtask=subtask, name=each.name, age_ms=each.age_ms, prepared=each.prepared
            )
            for subtask, each in driver.figures.transactions()
        ),
        checkpoint_complete=checkpoints.complete,
        checkpoint_running=checkpoints.running,
        checkpoint_failed=checkpoints.failed,
        warnings=tuple(
            DataWarningState(node=each.node, kind=each.kind, text=each.text, since=moment(each.since_ms))
            for each in driver.data.warnings
        ),
        waiting=tuple(
            WaitingState(node=each.node, on=each.on, since=moment(each.since_ms))
            for each in (_waiting(driver) if view.state is JobState.RUNNING else ())
        ),
        state_places=_state_places(driver) if view.state is JobState.RUNNING else None,
    )


def _waiting(driver: JobDriver) -> Iterator[Waiting | SourceWaiting]:
    yield from source_waits(driver.statuses.values())
    yield from driver.data.waiting


def _state_places(driver: JobDriver) -> StatePlaces:
    held, complete = driver.figures.state(), completed(driver)
    return StatePlaces(
        memory_bytes=held.memory_bytes,
        disk_bytes=held.disk_bytes,
        storage_bytes=None if complete is None else complete.bytes,
    )


def bottleneck(submission: Submitted, driver: JobDriver, plan: PhysicalPlan) -> Bottleneck:
    """Returns why a job that has not ended is slow."""
    state = driver.machine.view
    now = JobNow(state.state.value, driver.message, state.attempt, tuple(each.worker for each in driver.slots))
    view = live_view(plan, driver.figures, driver.checkpoints.entries, now=now)
    return _bottleneck(submission, report(view, decide(view)), view.window_ms)


def no_bottleneck(submission: Submitted, state: str) -> Bottleneck:
    """Returns the bottleneck document of a job without a driver, which does not run."""
    return _bottleneck(submission, report(LiveView(state), NotRunning(state, "")), 0)


def _bottleneck(submission: Submitted, found: Report, window_ms: int) -> Bottleneck:
    return Bottleneck(job_id=submission.job, name=submission.name, window_ms=window_ms, **asdict(found))


def monitored(submission: Submitted, driver: JobDriver, plan: PhysicalPlan, now_ms: int) -> JobValues:
    """Returns a running job's values for a monitoring system."""
    complete_at_ms = None if driver.checkpoint is None else driver.checkpoint.completed_at_ms
    log = driver.checkpoints
    return JobValues(
        status=running_status(submission, driver, plan, now_ms),
        checkpoint_age_s=None if complete_at_ms is None else max(0, now_ms - complete_at_ms) / 1000,
        completed=log.completed,
        failed=log.failed,
    )


def ended_status(last: JobStatus, result: JobResult, history: JobHistory) -> JobStatus:
    """Returns the status of an ended job: its last status with its result."""
    return last.model_copy(
        update={
            "state": result.state,
            "failure": None if result.failure is None else failure_text(result.failure),
            "ended_at": moment(result.ended_at_ms),
            "savepoint": result.savepoint,
            "message": None,
            "alarm": None,
            "ended_by": ended_by(result.state, history),
            "transactions": (),
            "waiting": (),
            "state_places": None,
            "checkpoint_running": None,
        }
    )


def ending_status(last: JobStatus, state: str, message: str, history: JobHistory) -> JobStatus:
    """Returns the status of a job whose end is not durable yet: its last status with the new state."""
    ended = {"ended_by": ended_by(state, history), "transactions": (), "waiting": (), "checkpoint_running": None}
    return last.model_copy(update={"state": state, "message": message, "alarm": None, **ended})


def stored_status(submission: JobSubmission, result: JobResult, history: JobHistory) -> JobStatus:
    """Returns the status of a job that had ended before this coordinator began."""
    return ended_status(_bare(submission, history, result.state), result, history)


def left_status(
    submission: JobSubmission, history: JobHistory, message: str, failure: Failure | None = None
) -> JobStatus:
    """Returns the status of a job that has not ended and has no driver."""
    text = None if failure is None else failure_text(failure)
    bare = _bare(submission, history, JobState.SUSPENDED.value)
    return bare.model_copy(update={"message": message, "failure": text})


def _bare(submission: JobSubmission, history: JobHistory, state: str) -> JobStatus:
    last = history.attempts[-1] if history.attempts else None
    return JobStatus(
        job_id=submission.job,
        name=submission.name,
        state=state,
        attempt=0 if last is None else last.attempt,
        parallelism=submission.options.parallelism if last is None else last.parallelism,
        started_at=moment(submission.submitted_at_ms),
        restarts=max(0, len(history.attempts) - 1),
    )


def completed(driver: JobDriver) -> CompletedCheckpoint | None:
    """Returns the newest complete checkpoint."""
    newest = driver.checkpoint
    if newest is None:
        return None
    return CompletedCheckpoint(
        epoch=newest.epoch, completed_at=moment(newest.completed_at_ms), path=newest.path, bytes=newest.bytes
    )


def failure_text(failure: Failure) -> str:
    """Returns an error's text with its place and remedy."""
    where = ", ".join(
        text
        for text in (
            None if failure.node is None else f"node {failure.node}",
            None if failure.subtask is None else f"subtask {failure.subtask}",
            None if failure.worker is None else f"worker {failure.worker}",
            failure.place,
        )
        if text
    )
    text = f"{failure.message} ({where})" if where else failure.message
    return f"{text}\n  {failure.remedy}" if failure.remedy else text


def exception_info(entry: ExceptionEntry) -> ExceptionInfo:
    """Returns a failure of the history."""
    failure = entry.failure
    return ExceptionInfo(
        at=moment(entry.at_ms),
        attempt=entry.attempt,
        message=failure.message,
        domain=failure.domain,  # type: ignore[arg-type]
        remedy=failure.remedy,
        node=failure.node,
        subtask=failure.subtask,
        worker=failure.worker,
        place=failure.place,
        trace=failure.trace,
        unreachable=failure.unreachable,
    )
