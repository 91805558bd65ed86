"""The overview of a cluster: its figures, its jobs, and what an operator should look at. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.client.cluster_models import ClusterInfo, WorkerInfo
from headrace.client.figure_models import JobFigures
from headrace.client.models import FINAL_STATES
from headrace.ui.views.formats import NONE, bytes_text, count_text, duration_text, rate_text, time_text

Row = dict[str, str | int | float]
"""A row of a table: the values of the columns, and values to sort by."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """figures: (label, value) of the cluster; alarms: (job id, text)."""

    figures: tuple[tuple[str, str], ...]
    jobs: tuple[Row, ...]
    alarms: tuple[tuple[str, str], ...]


def cluster_view(cluster: ClusterInfo | None, jobs: Sequence[JobFigures], now: datetime) -> ClusterView:
    """The overview. cluster: None: not known yet; now: for how long jobs run."""
    running = [each for each in jobs if each.state not in FINAL_STATES]
    failed = sum(each.state == "FAILED" for each in jobs)
    slots = NONE if cluster is None else f"{cluster.slots_free} of {cluster.slots}"
    workers = NONE if cluster is None else str(len(cluster.workers))
    alarms = [(each.job_id, f"{each.name}: {each.alarm}") for each in running if each.alarm]
    if cluster is not None and cluster.provisioning is not None and cluster.provisioning.trouble:
        alarms.append(("", f"workers: {cluster.provisioning.trouble}"))
    return ClusterView(
        figures=(
            ("Running", str(len(running))),
            ("Failed", str(failed)),
            ("Slots free", slots),
            ("Rows/s in", rate_text(sum(each.rows_in_per_s for each in running))),
            ("Workers", workers),
        ),
        jobs=tuple(_job_row(each, now) for each in jobs),
        alarms=tuple(alarms),
    )


def worker_row(worker: WorkerInfo) -> Row:
    """A row of the table of workers."""
    return {
        "worker": worker.worker,
        "host": worker.host,
        "pid": worker.pid,
        "slots": f"{worker.slots - worker.slots_free} of {worker.slots}",
        "cpu": NONE if worker.cpu is None else f"{worker.cpu:.2f}",
        "memory": bytes_text(worker.memory_bytes),
        "since": time_text(worker.registered_at),
        "version": worker.version,
    }


_WORKER_LABELS = {
    "host": "Host",
    "pid": "Pid",
    "slots": "Slots used",
    "cpu": "CPU, cores",
    "memory": "Memory",
    "since": "Since (UTC)",
    "version": "Version",
}


def worker_facts(cluster: ClusterInfo | None, worker: str) -> tuple[tuple[str, str], ...]:
    """(label, value) of one worker; of one that is not registered only that."""
    if cluster is None:
        return ()
    info = next((each for each in cluster.workers if each.worker == worker), None)
    if info is None:
        return (("State", "not registered"),)
    row = worker_row(info)
    return tuple((label, str(row[name])) for name, label in _WORKER_LABELS.items() if row[name] != NONE)


def _job_row(job: JobFigures, now: datetime) -> Row:
    ended = job.state in FINAL_STATES
    age_ms = None if job.started_at is None else int(((job.ended_at or now) - job.started_at).total_seconds() * 1000)
    return {
        "id": job.job_id,
        "name": job.name,
        "state": job.state,
        "rate": NONE if ended else rate_text(job.rows_in_per_s),
        "lag": count_text(job.lag),
        "delay": duration_text(job.watermark_delay_ms),
        "checkpoint": NONE if job.checkpoint_age_ms is None else f"{duration_text(job.checkpoint_age_ms)} ago",
        "restarts": NONE if ended else str(job.restarts),
        "since": duration_text(age_ms),
    }


def expected_rows(cluster: ClusterInfo) -> tuple[Row, ...]:
    """Workers that were started and are not registered yet."""
    expected = () if cluster.provisioning is None else cluster.provisioning.expected
    return tuple({"worker": each.worker, "phase": each.phase, "reason": each.reason or NONE} for each in expected)
