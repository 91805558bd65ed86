"""Builds the REST API's document of a job's figures. It costs far less than a status: no document of a subtask is made,
because pages ask for all jobs every few seconds."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from headrace.client.figure_models import PARTITIONS_MAX, JobFigures, PartitionLag
from headrace.client.models import JobSummary
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.rest.node_status import job_rates, watermark_delay_ms
from headrace.core.signals import TIME_MIN

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan


def running_figures(summary: JobSummary, driver: JobDriver, plan: PhysicalPlan, now_ms: int) -> JobFigures:
    """Returns the figures of a job that has a driver."""
    statuses = driver.statuses.values()
    subtasks = [each for status in statuses for each in status.subtasks]
    sources = [each for status in statuses for each in status.sources]
    watermarks = [each.watermark for each in sources if each.watermark > TIME_MIN]
    rate_in, rate_out = job_rates(plan, driver.figures)
    newest = driver.checkpoint
    took = next((each.took_ms for each in driver.checkpoints.entries if each.is_complete), None)
    failure = driver.machine.job.failure
    return JobFigures(
        **summary.model_dump(),
        attempt=driver.machine.job.attempt,
        parallelism=driver.machine.job.parallelism,
        restarts=driver.machine.job.restarts,
        rows_in_per_s=round(rate_in.recent, 1),
        rows_out_per_s=round(rate_out.recent, 1),
        busy=max((each.busy for each in subtasks), default=0.0),
        backpressured=max((each.backpressured for each in subtasks), default=0.0),
        lag=sum(each.lag for each in sources) if sources else None,
        partitions=_partitions(plan, driver),
        watermark_delay_ms=watermark_delay_ms(min(watermarks, default=None), now_ms),
        checkpoint_age_ms=None if newest is None else max(0, now_ms - newest.completed_at_ms),
        checkpoint_ms=took,
        checkpoint_bytes=None if newest is None else newest.bytes,
        alarm=driver.machine.view.alarm,
        failure=None if failure is None else failure.message,
    )


def ended_figures(summary: JobSummary) -> JobFigures:
    """Returns the entry of a job without a driver."""
    return JobFigures(**summary.model_dump())


def _partitions(plan: PhysicalPlan, driver: JobDriver) -> tuple[PartitionLag, ...]:
    """The partitions that are furthest behind, in the order of their names, so that a plot's lines keep their place."""
    from headrace.plan.totals import source_names

    lags = (
        (each.lag, name, each.topic, each.partition)
        for name in source_names(plan)
        for source in driver.figures.sources(name).values()
        for each in source.partitions
        if each.lag is not None
    )
    furthest = heapq.nlargest(PARTITIONS_MAX, lags)
    found = [
        PartitionLag(source=name, topic=topic, partition=partition, lag=lag) for lag, name, topic, partition in furthest
    ]
    return tuple(sorted(found, key=lambda each: (each.source, each.topic, each.partition)))
