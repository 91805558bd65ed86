"""An operator that is killed at any moment of an upgrade, a suspension or a deletion: the next one comes to the same
end. Two that both believe they lead do no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kubernetes_operator.decisions.job_machine import REFUSED_SECONDS
from support.operator.killed_operator import KilledError, Operator, settle
from support.operator.simulated_job import SimulatedCluster, SimulatedObject, SimulatedWorld

MODES = ("savepoint", "last-state", "stateless")


@dataclass
class Stage:
    """A job that runs its first pipeline."""

    mode: str
    target: SimulatedObject = field(init=False)
    cluster: SimulatedCluster = field(default_factory=SimulatedCluster)
    clock: list[int] = field(default_factory=lambda: [1_700_000_000])

    def __post_init__(self) -> None:
        self.target = SimulatedObject({"pipeline": "first", "cluster": "c", "upgradeMode": self.mode})
        settle(self.operator())
        assert self.target.status.phase == "Running"

    def operator(self, dies_at: int = 0) -> Operator:
        return Operator(SimulatedWorld(self.target, self.cluster, self.clock), dies_at=dies_at)

    def end(self) -> object:
        """All that must not depend on who did it."""
        status = self.target.status
        return (
            [(each.pipeline, each.took, each.state) for each in self.cluster.jobs.values()],
            (status.phase, status.job_id, status.previous_job_id, status.origin, status.target, status.stable_spec),
            (status.refusal and status.refusal.reason, self.target.is_gone),
        )


def upgrade(stage: Stage) -> None:
    stage.target.edit({"pipeline": "second"})


def refused_upgrade(stage: Stage) -> None:
    stage.target.edit({"pipeline": "refused second"})


def broken_upgrade(stage: Stage) -> None:
    stage.target.edit({"pipeline": "broken second"})


def suspension(stage: Stage) -> None:
    stage.target.edit({"state": "suspended"})


def restart(stage: Stage) -> None:
    stage.target.edit({"restartNonce": 1})


def deletion(stage: Stage) -> None:
    stage.target.edit({"onDelete": "savepoint"})
    stage.target.delete()


CHANGES = (upgrade, refused_upgrade, broken_upgrade, suspension, restart, deletion)


def changed(mode: str, change: Callable[[Stage], None], dies_at: int) -> tuple[Stage, int]:
    """The stage after a change, made by an operator that is killed at a moment, and by the next one. Returns the
    number of moments, too, that the first one had."""
    stage = Stage(mode)
    change(stage)
    first = stage.operator(dies_at)
    try:
        settle(first)
    except KilledError:
        settle(stage.operator())
    return stage, first.moments


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_kill_at_any_moment_changes_nothing_of_the_end(mode: str, change: Callable[[Stage], None]) -> None:
    undisturbed, moments = changed(mode, change, 0)
    assert moments > 3, "the change takes steps"
    for dies_at in range(1, moments + 1):
        stage, survived = changed(mode, change, dies_at)
        assert survived == dies_at, "it was killed"
        assert stage.end() == undisturbed.end(), f"killed at moment {dies_at}"


@pytest.mark.parametrize(
    ("mode", "took"), [("savepoint", "state-of-job1"), ("last-state", "state-of-job1"), ("stateless", None)]
)
def test_an_upgrade_goes_on_from_the_state_that_its_mode_keeps(mode: str, took: str | None) -> None:
    stage, _ = changed(mode, upgrade, 0)
    ended = "FINISHED" if mode == "savepoint" else "CANCELED"
    jobs = [(each.pipeline, each.took, each.state) for each in stage.cluster.jobs.values()]
    assert jobs == [("first", None, ended), ("second", took, "RUNNING")]
    assert (stage.target.status.job_id, stage.target.status.previous_job_id) == ("job2", "job1")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", [refused_upgrade, broken_upgrade])
def test_a_failed_upgrade_goes_back_to_the_stable_spec_with_its_state(
    mode: str, change: Callable[[Stage], None]
) -> None:
    stage, _ = changed(mode, change, 0)
    (last,) = stage.cluster.live()
    assert (last.pipeline, last.took, last.state) == ("first", "state-of-job1", "RUNNING")
    conditions = {each.type: each for each in stage.target.status.conditions}
    assert conditions["Ready"].status == "True"
    assert (conditions["Degraded"].status, conditions["Degraded"].reason) == ("True", "UpgradeFailed")
    # it is not tried again as it is
    jobs = len(stage.cluster.jobs)
    settle(stage.operator())
    assert len(stage.cluster.jobs) == jobs
    stage.target.edit({"pipeline": "third"})
    settle(stage.operator())
    assert [each.pipeline for each in stage.cluster.live()] == ["third"]
    assert stage.target.status.conditions[2].status == "False"


@pytest.mark.parametrize("mode", ["savepoint", "last-state"])
def test_an_upgrade_that_does_not_start_is_replaced_and_loses_no_state(mode: str) -> None:
    stage = Stage(mode)
    stage.target.edit({"pipeline": "slow second"})
    operator = stage.operator()
    for _ in range(20):
        operator.round()
    assert stage.target.status.phase == "Starting"
    stage.target.edit({"pipeline": "third"})
    settle(stage.operator())
    # the one that never ran is cancelled, because it cannot reach a cut, and has no state of its own
    jobs = [(each.pipeline, each.took, each.state) for each in stage.cluster.jobs.values()]
    assert jobs[1:] == [("slow second", "state-of-job1", "CANCELED"), ("third", "state-of-job1", "RUNNING")]


def test_a_job_that_began_anew_and_ran_does_not_come_back_to_older_state() -> None:
    stage = Stage("stateless")
    stage.target.edit({"pipeline": "forgetful second"})
    settle(stage.operator())
    stage.target.edit({"upgradeMode": "last-state", "restartNonce": 1})
    settle(stage.operator())
    assert [each.took for each in stage.cluster.jobs.values()] == [None, None, None]


def test_the_first_job_starts_from_the_savepoint_that_the_spec_names() -> None:
    stage = Stage("savepoint")
    target = SimulatedObject({**stage.target.spec, "initialSavepoint": "/given"})
    cluster = SimulatedCluster()
    settle(Operator(SimulatedWorld(target, cluster, stage.clock)))
    target.edit({"pipeline": "second"})
    settle(Operator(SimulatedWorld(target, cluster, stage.clock)))
    assert [each.took for each in cluster.jobs.values()] == ["/given", "state-of-job1"]


def test_a_first_spec_that_is_refused_is_tried_again_after_a_while() -> None:
    target, cluster, clock = (
        SimulatedObject({"pipeline": "refused", "cluster": "c"}),
        SimulatedCluster(),
        [1_700_000_000],
    )
    operator = Operator(SimulatedWorld(target, cluster, clock))
    settle(operator)
    assert (target.status.phase, target.status.submissions) == ("Stopped", 1)
    clock[0] += int(REFUSED_SECONDS)
    settle(operator)
    assert target.status.submissions == 2
    target.edit({"pipeline": "first"})
    settle(operator)
    assert (target.status.phase, target.status.refusal) == ("Running", None)


def test_a_job_whose_upgrade_was_refused_is_resumed_with_the_stable_spec() -> None:
    stage = Stage("savepoint")
    stage.target.edit({"pipeline": "refused second"})
    settle(stage.operator())
    for state in ("suspended", "running"):
        stage.target.edit({"state": state})
        settle(stage.operator())
    (last,) = stage.cluster.live()
    assert (last.pipeline, last.took) == ("first", "state-of-job2")


@given(
    mode=st.sampled_from(MODES),
    acts=st.lists(
        st.sampled_from(
            ["a", "b", "kill a", "kill b", "second", "refused", "broken", "slow", "suspended", "running", "nonce"]
        ),
        max_size=60,
    ),
)
@settings(deadline=None)
def test_two_operators_and_a_user_in_any_order(mode: str, acts: list[str]) -> None:
    stage = Stage(mode)
    operators = {"a": stage.operator(), "b": stage.operator()}
    for number, act in enumerate(acts):
        match act:
            case "a" | "b":
                operators[act].round()
            case "kill a" | "kill b":
                operators[act[-1]] = stage.operator()
            case "suspended" | "running":
                stage.target.edit({"state": act})
            case "nonce":
                stage.target.edit({"restartNonce": number})
            case _:
                stage.target.edit({"pipeline": act})
        assert len(stage.cluster.live()) <= 1
    stage.target.edit({"pipeline": "last", "state": "running"})
    settle(stage.operator())
    (last,) = stage.cluster.live()
    assert (last.pipeline, last.state) == ("last", "RUNNING")
    lost = [each for each in stage.cluster.jobs.values() if each.took is None]
    if mode != "stateless":
        assert [each.job_id for each in lost] == ["job1"], "every other job goes on from state"
