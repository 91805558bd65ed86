"""Builds the REST API's documents of workers."""

from __future__ import annotations

from headrace import __version__
from headrace.client.cluster_models import WorkerInfo
from headrace.coordinator.fleet.fleet import Fleet


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
