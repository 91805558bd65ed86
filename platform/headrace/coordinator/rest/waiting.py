"""Why a job waits for slots, if the cluster makes its own workers."""

from __future__ import annotations

from headrace.client.cluster_models import ExpectedWorkerInfo, ProvisioningInfo
from headrace.client.models import JobStatus
from headrace.coordinator.fleet.slot_pool import PoolView
from headrace.coordinator.provisioning.provisioning import ProvisioningView

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
    return ProvisioningInfo(slots_max=view.slots_max, expected=expected, trouble=view.trouble or None)


def with_reason(status: JobStatus, pool: PoolView, view: ProvisioningView) -> JobStatus:
    """Returns the status with what the system says about missing workers, if the job waits for them."""
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
