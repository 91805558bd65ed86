"""Builds the REST API's job documents from the state of a driver and the status messages of its slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.savepoints.savepoint import checkpoint_url
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import (
    CheckpointInfo,
    CompletedCheckpoint,
    ExceptionInfo,
    JobStatus,
    JobSummary,
    NodeStatus,
    SubtaskState,
    moment,
)
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.fleet.slot_pool import PooledSlot
from headrace.coordinator.job.history import ExceptionEntry, JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.ledger.records import JobResult
from headrace.coordinator.rest.metrics import JobSample
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.signals import TIME_MIN
from headrace.execution.manifests import total_counters
from headrace.rpc.messages import Failure
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan, Task


def summary(submission: JobSubmission, state: str, result: JobResult | None) -> JobSummary:
    """Returns a job's entry in the list of jobs."""
    return JobSummary(
        job_id=submission.job,
        name=submission.name,
        state=state,
        started_at=moment(submission.submitted_at_ms),
        ended_at=None if result is None else moment(result.ended_at_ms),
    )


def running_status(submission: JobSubmission, driver: JobDriver, plan: PhysicalPlan) -> JobStatus:
    """Returns the status of a job that has not ended."""
    view = driver.machine.view
    failure = driver.machine.job.failure
    return JobStatus(
        job_id=submission.job,
        name=submission.name,
        state=view.state.value,
        attempt=view.attempt,
        parallelism=view.parallelism,
        opened=view.opened,
        nodes=node_statuses(plan, driver.statuses, driver.slots, driver.machine.job.counted),
        checkpoint=completed(driver),
        failure=None if failure is None else failure_text(failure),
        started_at=moment(submission.submitted_at_ms),
        restarts=driver.machine.job.restarts,
        message=driver.message or None,
        alarm=view.alarm,
    )


def sample(submission: JobSubmission, driver: JobDriver, now_ms: int) -> JobSample:
    """Returns a running job's values for a monitoring system."""
    newest = driver.checkpoint
    return JobSample(
        job=submission.job,
        name=submission.name,
        alarm=driver.machine.view.alarm is not None,
        restarts=driver.machine.job.restarts,
        checkpoint_age_s=None if newest is None else max(0, now_ms - newest.completed_at_ms) / 1000,
    )


def ended_status(last: JobStatus, result: JobResult) -> JobStatus:
    """Returns the status of an ended job: its last status with its result."""
    return last.model_copy(
        update={
            "state": result.state,
            "failure": None if result.failure is None else failure_text(result.failure),
            "ended_at": moment(result.ended_at_ms),
            "savepoint": result.savepoint,
            "message": None,
            "alarm": None,
        }
    )


def ending_status(last: JobStatus, state: str, message: str) -> JobStatus:
    """Returns the status of a job whose end is not durable yet: its last status with the new state."""
    return last.model_copy(update={"state": state, "message": message, "alarm": None})


def stored_status(submission: JobSubmission, result: JobResult, history: JobHistory) -> JobStatus:
    """Returns the status of a job that had ended before this coordinator began."""
    return ended_status(_bare(submission, history, result.state), result)


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


def checkpoint_info(record: CheckpointRecord, path: str, *, committed: bool) -> CheckpointInfo:
    """Returns a retained checkpoint."""
    manifest = record.manifest
    return CheckpointInfo(
        epoch=manifest.epoch,
        attempt=manifest.attempt,
        kind="checkpoint" if record.savepoint is None else "savepoint",
        status="committed" if committed else "completed",
        started_at=None if record.took_ms is None else moment(record.at_ms - record.took_ms),
        completed_at=moment(record.at_ms),
        duration_ms=record.took_ms,
        bytes=manifest.bytes,
        path=record.savepoint or path,
    )


def retained_checkpoints(storage: str) -> tuple[CheckpointInfo, ...]:
    """Reads all checkpoints of the journal in a job's storage, newest first. Blocking."""
    journal = JournalStore(open_store(storage), "", "").load()
    open_epoch = None if journal.uncommitted is None else journal.uncommitted.manifest.epoch
    return tuple(
        checkpoint_info(record, checkpoint_url(storage, record), committed=record.manifest.epoch != open_epoch)
        for record in reversed(journal.checkpoints)
    )


def node_statuses(
    plan: PhysicalPlan,
    statuses: Mapping[int, SlotStatus],
    slots: tuple[PooledSlot, ...],
    counted: Mapping[str, Mapping[str, int]],
) -> tuple[NodeStatus, ...]:
    """Returns every node of the plan, in flow order. `counted`: counters of earlier attempts, up to the restored
    checkpoint.
    """
    # imported here: a coordinator without jobs loads no planning
    from headrace.execution.planning import node_kind

    subtasks = {(each.task, each.subtask): each for status in statuses.values() for each in status.subtasks}
    sources: dict[str, list[SourceSubtaskStatus]] = {}
    for status in statuses.values():
        for each in status.sources:
            sources.setdefault(each.source, []).append(each)
    counters = total_counters([counted, *(status.counters for status in statuses.values())])
    return tuple(
        _node_status(
            node.node,
            node_kind(node),
            task,
            [(each, _slot(slots, each.subtask)) for key, each in sorted(subtasks.items()) if key[0] == task.name],
            counters.get(node.node, {}),
            sources.get(node.node, []),
        )
        for task in plan.tasks
        for node in task.nodes
    )


def _node_status(
    node: str,
    kind: str,
    task: Task,
    subtasks: list[tuple[SubtaskStatus, PooledSlot | None]],
    counters: Mapping[str, int],
    source: list[SourceSubtaskStatus],
) -> NodeStatus:
    times = [each.watermark for each in source] if source else [each.watermark for each, _ in subtasks]
    known = [time for time in times if time is not None and time > TIME_MIN]
    return NodeStatus(
        node=node,
        kind=kind,
        parallelism=task.parallelism,
        rows_in=counters.get("rows_in", 0),
        rows_out=counters.get("rows_out", 0),
        late=counters.get("late", 0),
        bad=counters.get("bad", 0),
        lag=sum(each.lag for each in source) if source else None,
        watermark=min(known) if known and len(known) == len(times) else None,
        backpressured=max((each.backpressured for each, _ in subtasks), default=0.0),
        busy=max((each.busy for each, _ in subtasks), default=0.0),
        subtasks=tuple(
            SubtaskState(
                subtask=each.subtask,
                worker=None if slot is None else slot.worker,
                slot=None if slot is None else slot.slot,
                rows_queued=each.rows_queued,
                busy=each.busy,
                backpressured=each.backpressured,
                watermark=each.watermark,
                ended=each.ended,
            )
            for each, slot in subtasks
        ),
    )


def _slot(slots: tuple[PooledSlot, ...], index: int) -> PooledSlot | None:
    return slots[index] if index < len(slots) else None
