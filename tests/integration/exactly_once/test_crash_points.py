"""kill -9 of the worker, of the coordinator (and with it its connector host), or of both, at every step of a commit.

After each, a read_committed reader sees what the input comes to, every row once, and no transaction of an earlier
attempt is open. The commit tier kills at each step once, and the victims take turns over the steps; the full tier kills
all victims at all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, kill
from support.clusters.stopping_points import StoppingPoints
from support.kafka.open_transactions import require_none_left

pytestmark = pytest.mark.broker

Victims = Literal["worker", "coordinator", "both"]
VICTIMS: tuple[Victims, ...] = ("worker", "coordinator", "both")
STEPS: Mapping[str, Victims] = {
    "before-flush": "worker",
    "after-flush": "both",
    "before-describe": "coordinator",
    "after-describe": "worker",
    "before-commit": "both",
    "mid-commit": "coordinator",
    "after-commit": "worker",
    "after-record": "both",
}
RECOVERY_STEPS: Mapping[str, Victims] = {"before-fence": "coordinator", "after-fence": "worker"}
"""Step -> its victims in the commit tier."""


def matrix(turns: Mapping[str, Victims]) -> list[object]:
    """All victims at each step; those whose turn it is not belong to the full tier."""
    return [
        pytest.param(step, victims, marks=() if victims == turn else pytest.mark.full)
        for step, turn in turns.items()
        for victims in VICTIMS
    ]


def strike(cluster: Cluster, victims: Victims) -> None:
    """kill -9; a supervisor's slots and a coordinator's connector host end with it."""
    pids: list[int] = []
    if victims != "coordinator":
        pids += [cluster.worker(1), *cluster.slots()]
    if victims != "worker":
        pids += [cluster.coordinator(), *cluster.connector_hosts()]
    kill(*pids)


@pytest.mark.parametrize(("step", "victims"), matrix(STEPS))
def test_killed_at(
    cluster: Cluster, broker: EmbeddedBroker, flow: Flow, points: StoppingPoints, step: str, victims: Victims
) -> None:
    with flow.recovering(f"{victims} killed {step}"):
        with points.held_at(step):
            strike(cluster, victims)
        cluster.start_again()
    require_none_left(broker, flow)


@pytest.mark.parametrize(("step", "victims"), matrix(RECOVERY_STEPS))
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


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("before-commit", marks=pytest.mark.full),
        "mid-commit",
        pytest.param("after-commit", marks=pytest.mark.full),
    ],
)
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
