"""Rounds of the operator on a real API server, a real coordinator and Kafka, killed at every moment of an upgrade.

Before and after each record and step: the simulation of `tests/unit/kubernetes_operator` does so for every change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes_operator.resources.kinds import JOB
from headrace.kubernetes_operator.shell.job_world import JobWorld
from headrace.kubernetes_operator.shell.reconcilers import now
from headrace.kubernetes_operator.shell.resource_store import Key
from support.clusters.kafka_flow import Flow
from support.operator.flow_job import CLUSTER_NAME, NAME, SMALL, spec_of
from support.operator.killed_operator import KilledError, Operator
from support.operator.operators import Resources
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]


@pytest.fixture(scope="module")
def resources(connection: Connection, operated: str) -> Iterator[Resources]:
    found = Resources(connection, operated)
    yield found
    found.remove_all()


class Upgrades:
    """A HeadraceJob that is upgraded again and again; `job` is the one that runs."""

    def __init__(self, connection: Connection, resources: Resources, name: str) -> None:
        self._connection = connection
        self._resources = resources
        self._key = Key(JOB, resources.namespace, name)
        self.job = ""

    def to(self, spec: Mapping[str, object], dies_at: int = 0) -> bool:
        """Applies the spec. The operator is killed at that moment, and the next one goes on; returns whether."""
        self._resources.apply(JOB, self._key.name, spec)
        before, was_killed = self.job, False
        try:
            self._settle(dies_at)
        except KilledError:
            was_killed = True
            self._settle(0)
        status = self._resources.status(JOB, self._key.name)
        self.job = status["jobId"]
        assert status.get("previousJobId", "") == before
        return was_killed

    def delete(self) -> None:
        """Deletes it."""
        self._resources.delete(JOB, self._key.name)
        operator = self._operator(0)
        wait_until(lambda: not (operator.round() or self._resources.exists(JOB, self._key.name)), "it is gone")

    def _settle(self, dies_at: int) -> None:
        operator = self._operator(dies_at)

        def runs() -> bool:
            is_busy = operator.round()
            status = self._resources.status(JOB, self._key.name)
            return not is_busy and status["phase"] == "Running" and status["jobId"] != self.job

        self._resources.wait(runs, f"another job than {self.job} runs", JOB, self._key.name)

    def _operator(self, dies_at: int) -> Operator:
        return Operator(JobWorld(self._key, self._connection, now), dies_at=dies_at)


@pytest.mark.parametrize(("mode", "ended"), [("savepoint", "FINISHED"), ("last-state", "CANCELED")])
def test_killed_at_every_moment_of_an_upgrade_that_keeps_state(
    mode: str, ended: str, connection: Connection, resources: Resources, flow: Flow
) -> None:
    upgrades = Upgrades(connection, resources, NAME)
    spec = spec_of(flow, upgradeMode=mode, onDelete="savepoint")
    if not resources.exists(JOB, NAME):
        upgrades.to(spec)
    flow.job = upgrades.job = resources.status(JOB, NAME)["jobId"]
    moment = 0
    while True:
        moment += 1
        before = upgrades.job
        was_killed = upgrades.to({**spec, "restartNonce": 100 * len(ended) + moment}, dies_at=moment)
        flow.job = upgrades.job
        flow.wait_checkpoint()
        flow.settle()
        assert flow.cluster.client.status(before).state == ended
        if not was_killed:
            break
    assert moment > 8, "an upgrade has many moments"


def test_killed_at_every_moment_of_an_upgrade_without_state(
    connection: Connection, resources: Resources, flow: Flow
) -> None:
    upgrades = Upgrades(connection, resources, "departures")
    spec = {"pipeline": SMALL, "cluster": CLUSTER_NAME, "parallelism": 1, "upgradeMode": "stateless"}
    upgrades.to(spec)
    moment, was_killed = 0, True
    while was_killed:
        moment += 1
        was_killed = upgrades.to({**spec, "restartNonce": moment}, dies_at=moment)
        assert resources.status(JOB, "departures").get("origin") is None
        live = [each for each in flow.cluster.client.jobs() if each.name == "departures" and each.state == "RUNNING"]
        assert [each.job_id for each in live] == [upgrades.job]
    assert moment > 8, "an upgrade has many moments"
    jobs = [each for each in flow.cluster.client.jobs() if each.name == "departures"]
    assert len(jobs) == moment + 1, "each upgrade is one job"
    upgrades.delete()
