"""The document of the REST API with the figures of all jobs: for those who draw many jobs, and ask often."""

from __future__ import annotations

from headrace.client.models import Answer, JobSummary

PARTITIONS_MAX = 8
"""Most partitions of one job in `JobFigures`: those that are furthest behind."""


class PartitionLag(Answer):
    """Messages of one partition that a source has not read yet."""

    source: str
    topic: str
    partition: int
    lag: int


class JobFigures(JobSummary):
    """A job in a list, with its figures. Those of a job that does not run are 0 or None.

    rows_in_per_s, rows_out_per_s   of all sources and sinks, over the last 10 s
    busy, backpressured   highest of all subtasks, 0 to 1
    lag                 messages that all sources have not read yet; None: not known
    partitions          the partitions that are furthest behind, at most `PARTITIONS_MAX`
    watermark_delay_ms  how far the slowest watermark is behind the clock; None: not known, or at its end
    checkpoint_age_ms, checkpoint_ms, checkpoint_bytes   of the newest complete checkpoint: its age, duration and size
    alarm, failure      as in JobStatus
    """

    attempt: int = 0
    parallelism: int = 0
    restarts: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    busy: float = 0.0
    backpressured: float = 0.0
    lag: int | None = None
    partitions: tuple[PartitionLag, ...] = ()
    watermark_delay_ms: int | None = None
    checkpoint_age_ms: int | None = None
    checkpoint_ms: int | None = None
    checkpoint_bytes: int | None = None
    alarm: str | None = None
    failure: str | None = None


class JobFiguresList(Answer):
    """All jobs with their figures, newest first: those that run, and the history."""

    jobs: tuple[JobFigures, ...]
