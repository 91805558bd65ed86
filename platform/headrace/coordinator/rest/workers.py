"""Workers in the REST API's documents: those of a cluster, and why a job's workers are missing or have ended, as
Kubernetes or YARN reports it."""

from __future__ import annotations

from headrace import __version__
from headrace.client.cluster_models import EndedWorkerInfo, ExpectedWorkerInfo, ProvisioningInfo, WorkerInfo
from headrace.client.models import ExceptionInfo, JobStatus
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.provisioning.provisioning import ProvisioningView
from headrace.coordinator.provisioning.slot_pool import PoolView

SHOWN_MAX = 3
"""Reasons of so many workers are in a job's message; `headrace cluster status` has all."""


def provisioning_info(view: ProvisioningView | None) -> ProvisioningInfo | None:
    """Returns the document of what is on its way."""
    if view is None:
        return None
    expected = tuple(
        ExpectedWorkerInfo(worker=each.worker, phase=each.phase.value, reason=each.reason or None)
        for each in view.expected
    )
    ended = tuple(EndedWorkerInfo(worker=each.worker, reason=each.reason) for each in view.ended)
    return ProvisioningInfo(slots_max=view.slots_max, expected=expected, trouble=view.trouble or None, ended=ended)


def with_end(failure: ExceptionInfo, view: ProvisioningView) -> ExceptionInfo:
    """Returns a failure with the reason of its worker's end. The system may name it after the job has failed."""
    reason = next((each.reason for each in view.ended if each.worker == failure.worker), "")
    if not reason or reason in failure.message:
        return failure
    return failure.model_copy(update={"message": f"{failure.message}; {reason}"})


def with_ends(status: JobStatus, view: ProvisioningView) -> JobStatus:
    """Returns the status with the reason of the end of each worker that its failure names."""
    text = status.failure or ""
    for each in view.ended:
        # as `job_status.failure_text` writes it
        if f"worker {each.worker})" in text and each.reason not in text:
            text = f"{text}; {each.reason}"
    return status if text == (status.failure or "") else status.model_copy(update={"failure": text})


def with_reason(status: JobStatus, pool: PoolView, view: ProvisioningView) -> JobStatus:
    """Returns the status with the system's reasons for missing workers, if the job waits for them."""
    if not any(each.job == status.job_id for each in pool.queued):
        return status
    text = "; ".join(_reasons(status.job_id, pool, view))
    return status if not text else status.model_copy(update={"message": f"{status.message or 'waiting'}; {text}"})


def _reasons(job: str, pool: PoolView, view: ProvisioningView) -> list[str]:
    waits = next(each for each in pool.queued if each.job == job)
    if waits.slots > max(view.slots_max, pool.slots_total):
        return [f"the cluster has at most {view.slots_max}"]
    reasons = [f"worker {each.worker}: {each.reason}" for each in view.expected if each.reason]
    shown = [*([view.trouble] if view.trouble else []), *reasons]
    if not shown and view.expected:
        starting = len(view.expected)
        return [f"{starting} worker{'s start' if starting > 1 else ' starts'}"]
    return shown[:SHOWN_MAX]


def worker_infos(fleet: Fleet) -> tuple[WorkerInfo, ...]:
    """Returns the workers of a fleet, with their slots and what they used when they last reported."""
    infos = []
    for each in fleet.view().workers:
        register, load = fleet.registered(each.worker), fleet.load(each.worker)
        infos.append(
            WorkerInfo(
                worker=each.worker,
                host=each.host,
                pid=each.pid,
                slots=each.slots,
                slots_free=each.free,
                version=__version__ if register is None else register.version,
                cpu=None if load is None else load.cpu_millicores / 1000,
                memory_bytes=None if load is None else load.memory_bytes,
            )
        )
    return tuple(infos)
