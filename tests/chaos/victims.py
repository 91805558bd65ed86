"""Who is meant by a target just now, and signals to them; those that are gone already are passed over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import TypeVar, assert_never

from chaos.plan import Target
from support.clusters.session import COORDINATOR, SLOT, WORKER, Cluster
from support.clusters.standbys import StandbyCluster
from support.clusters.worker_process import parent_of

T = TypeVar("T")
CONNECTOR_HOST = "headrace-connector-host"


def find(cluster: Cluster, target: Target, choice: float) -> list[int]:
    """Their pids; empty where nobody of the kind is there."""
    coordinators = _of(cluster, COORDINATOR)
    leaders = cluster.leaders() if isinstance(cluster, StandbyCluster) else coordinators
    hosts = _of(cluster, CONNECTOR_HOST)
    workers = _of(cluster, WORKER)
    slots = _of(cluster, SLOT)
    worker = _pick(workers, choice)
    match target:
        case Target.SLOT:
            return _pick(slots, choice)
        case Target.SLOTS_OF_WORKER:
            return [slot for slot in slots if parent_of(slot) in worker]
        case Target.WORKER:
            return worker
        case Target.WORKER_AND_SLOTS:
            return worker + [slot for slot in slots if parent_of(slot) in worker]
        case Target.COORDINATOR:
            return leaders
        case Target.STANDBY:
            return _pick([each for each in coordinators if each not in leaders], choice)
        case Target.COORDINATORS:
            return coordinators
        case Target.CONNECTOR_HOST:
            return hosts
        case Target.COMMITTER:
            return leaders + hosts
        case Target.ALL:
            return coordinators + hosts + workers + slots
        case _:
            assert_never(target)


def send(number: signal.Signals, pids: Iterable[int]) -> list[int]:
    """The signal; gives those that were there."""
    found = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        found.append(pid)
    return found


def _of(cluster: Cluster, role: str) -> list[int]:
    """By their command lines, which hold their names."""
    return sorted(found := cluster.processes(role), key=lambda pid: (found[pid], pid))


def _pick(some: Sequence[T], choice: float) -> list[T]:
    return [some[int(choice * len(some))]] if some else []
