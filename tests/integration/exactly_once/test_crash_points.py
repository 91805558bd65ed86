"""kill -9 of the worker, of the coordinator (and with it its connector host), and of both, at every step of a commit.

After each, what a read_committed reader sees is what the input comes to, every row once, and no transaction of an
earlier attempt is open.
"""

from __future__ import annotations

from typing import Literal

import pytest

from headrace.local.broker import EmbeddedBroker
from support.cluster import Cluster, kill
from support.cluster_flow import Flow
from support.open_transactions import require_none_left
from support.stopping_points import StoppingPoints

pytestmark = pytest.mark.broker

Victims = Literal["worker", "coordinator", "both"]
STEPS = (
    "before-flush",
    "after-flush",
    "before-describe",
    "after-describe",
    "before-commit",
    "mid-commit",
    "after-commit",
    "after-record",
)
RECOVERY_STEPS = ("before-fence", "after-fence")
VICTIMS: tuple[Victims, ...] = ("worker", "coordinator", "both")


def strike(cluster: Cluster, victims: Victims) -> None:
    """kill -9; a supervisor's slots and a coordinator's connector host end with it."""
    pids: list[int] = []
    if victims != "coordinator":
        pids += [cluster.worker(1), *cluster.slots()]
    if victims != "worker":
        pids += [cluster.coordinator(), *cluster.processes("connector_host_process")]
    kill(*pids)


@pytest.mark.parametrize("victims", VICTIMS)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str, victims: Victims
) -> None:
    with flow.recovering(f"{victims} killed {step}"):
        with points.held_at(step):
            strike(cluster, victims)
        cluster.start_again()
    require_none_left(broker, flow)


@pytest.mark.parametrize("victims", VICTIMS)
@pytest.mark.parametrize("step", RECOVERY_STEPS)
def test_killed_while_it_recovers(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str, victims: Victims
) -> None:
    with flow.recovering(f"slot killed, then {victims} {step}"):
        points.ask(step)
        kill(flow.slots()[0])
        with points.held_at(step):
            strike(cluster, victims)
        cluster.start_again()
    require_none_left(broker, flow)


@pytest.mark.parametrize("step", ["before-commit", "mid-commit", "after-commit"])
def test_killed_in_the_commit_of_a_recovery(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str
) -> None:
    """The epoch is decided; the coordinator dies before it is committed, and the next one dies over it as well."""
    with flow.recovering(f"all killed, and again {step}"):
        with points.held_at("before-commit"):
            strike(cluster, "both")
        # before anybody recovers
        points.ask(step)
        cluster.start_again()
        with points.held_at(step):
            strike(cluster, "both")
        cluster.start_again()
    require_none_left(broker, flow)
