"""Every transition leads to the state that it names."""

from __future__ import annotations

from typing import get_args

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import TRANSITIONS
from headrace.coordinator.job.machine import state_after
from headrace.coordinator.job.states import transitions as to
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.messages import Failure
from headrace.spec.settings import Checkpoint


def _attempt() -> Attempt:
    facts = PlanFacts("plan", 1, 128, {}, {}, {})
    checkpoint = Checkpoint.model_validate({"interval": "10s"})
    return Attempt(Job.accepted(JobConfig("j1", "flights", 1, lambda _: facts, "1.0", checkpoint)), 0)


def _one_of_each() -> list[to.Transition]:
    failure, attempt = Failure("no broker answers", "external", retry=True), _attempt()
    return [
        to.ToScheduling(),
        to.ToDeploying(),
        to.ToRunning(attempt),
        to.ToStopping(attempt, 1),
        to.ToRescaling(attempt, 2, 1),
        to.ToRestarting(failure, 1_000),
        to.ToCancelling("request"),
        to.ToEndingEarly("no checkpoint"),
        to.ToFailing(failure),
        to.ToSuspended("the coordinator ends"),
        to.ToFinished(None),
        to.ToCanceled(("request",)),
        to.ToFailed(failure, ("request",)),
    ]


def test_each_state_that_may_follow_has_one_transition() -> None:
    # CANCELLING has two: a cancel, and a stop that takes no last checkpoint
    names = [each.name for each in get_args(to.Transition) if each is not to.ToEndingEarly]
    following = {name for states in TRANSITIONS.values() for name in states}
    assert sorted(names) == sorted(following)


def test_the_factory_makes_the_state_that_a_transition_names() -> None:
    transitions = _one_of_each()
    assert {type(transition) for transition in transitions} == set(get_args(to.Transition))
    for transition in transitions:
        assert state_after(transition).name is transition.name
