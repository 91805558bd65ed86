"""Documents of the REST API that follow from figures: those of all jobs, for who draws many and asks often, and why a
job is slow."""

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


class Bottleneck(Answer):
    """Why a job is slow, from the figures of its last seconds.

    kind       not-running, too-early, skewed-keys, skewed-partitions, slow-subtask, slow-sink, small-batches,
               slow-node, held-time, slow-checkpoints, slow-fetch or keeps-up
    verdict    in one line; evidence: lines; remedy: one, or None
    node, subtask, key, topic, partition   that the verdict names
    window_ms  the time that the figures cover
    """

    job_id: str
    name: str
    kind: str
    verdict: str
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
    node: str | None = None
    subtask: int | None = None
    key: str | None = None
    topic: str | None = None
    partition: int | None = None
    window_ms: int = 0
