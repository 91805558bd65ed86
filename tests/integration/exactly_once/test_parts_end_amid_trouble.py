"""Workers, coordinators and whole clusters end in time, as systemd, Docker and Kubernetes ask them to, whatever their
job does; it goes on exactly with the next ones."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from headrace.core.config import parse_duration_ms
from headrace.deployment.kubernetes.manifests import COORDINATOR_GRACE_SECONDS, WORKER_GRACE_SECONDS
from headrace.local.cluster.lifecycle import STOP_SECONDS
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster
from support.clusters.stopping_points import StoppingPoints
from support.clusters.troubles import TROUBLES, flow_for_troubles
from support.clusters.worker_process import is_running
from support.kafka.broker import running_broker
from support.patience import BROKER_SESSION
from support.processes.running import wait_until
from support.repository import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.turns(4)]

STANDALONE = ROOT / "deploy" / "standalone"
AMID = ["crash_loop", "hanging_function", "hanging_sink", "hanging_commit", "broker_away", "storage_away"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One that stands still for a while."""
    with running_broker(tmp_path_factory.mktemp("b"), settings=BROKER_SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[Flow]:
    """It runs, and is exact; so again after every test."""
    with flow_for_troubles(cluster, broker, points) as running:
        yield running


def _grace_s() -> float:
    """The least time that a shipped supervisor gives a part between SIGTERM and SIGKILL."""
    times_s = [COORDINATOR_GRACE_SECONDS, WORKER_GRACE_SECONDS]
    for name, setting in (("*.service", r"TimeoutStopSec=(\w+)"), ("compose*.yaml", r"stop_grace_period: (\w+)")):
        found = [each for file in STANDALONE.glob(name) for each in re.findall(setting, file.read_text())]
        assert found, name
        times_s += [parse_duration_ms(each) // 1_000 for each in found]
    return min(times_s)


def _ended_in_s(pid: int) -> float:
    """Sends SIGTERM, and returns how long the process took to end."""
    begun_s = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_running(pid), "it has ended")
    return time.monotonic() - begun_s


@pytest.mark.parametrize("name", AMID)
def test_a_worker_ends_in_time(cluster: Cluster, flow: Flow, points: StoppingPoints, name: str) -> None:
    with TROUBLES[name](flow, points):
        worker = cluster.worker()
        slots = cluster.slots(worker)
        assert _ended_in_s(worker) < _grace_s()
        assert not any(is_running(slot) for slot in slots)
    cluster.start_again()
    flow.wait_checkpoint()
    flow.settle()


@pytest.mark.parametrize("name", AMID)
def test_a_coordinator_ends_in_time(cluster: Cluster, flow: Flow, points: StoppingPoints, name: str) -> None:
    with TROUBLES[name](flow, points):
        coordinator = cluster.coordinator()
        assert _ended_in_s(coordinator) < _grace_s()
        assert cluster.connector_hosts() == []
    cluster.start_again()
    flow.wait_checkpoint()
    flow.settle()


@pytest.mark.parametrize("name", AMID)
def test_a_cluster_stops_in_time(cluster: Cluster, flow: Flow, points: StoppingPoints, name: str) -> None:
    with TROUBLES[name](flow, points):
        begun_s = time.monotonic()
        cluster.stop()
        assert time.monotonic() - begun_s < STOP_SECONDS
        assert cluster.processes() == {}
    cluster.start_again()
    flow.wait_checkpoint()
    flow.settle()
