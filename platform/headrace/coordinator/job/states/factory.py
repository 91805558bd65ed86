"""Creates the state that a transition names. Only the machine imports this module, because it imports every state."""

from __future__ import annotations

from typing import assert_never

from headrace.coordinator.job.states.cancelling import Cancelling
from headrace.coordinator.job.states.deploying import Deploying
from headrace.coordinator.job.states.ending_early import EndingEarly
from headrace.coordinator.job.states.failing import Failing
from headrace.coordinator.job.states.rescaling import Rescaling
from headrace.coordinator.job.states.restarting import Restarting
from headrace.coordinator.job.states.running import Running
from headrace.coordinator.job.states.scheduling import Scheduling
from headrace.coordinator.job.states.shared.state import State
from headrace.coordinator.job.states.stopping import Stopping
from headrace.coordinator.job.states.terminal.canceled import Canceled
from headrace.coordinator.job.states.terminal.failed import Failed
from headrace.coordinator.job.states.terminal.finished import Finished
from headrace.coordinator.job.states.terminal.suspended import Suspended
from headrace.coordinator.job.states.transitions import (
    ToCanceled,
    ToCancelling,
    ToDeploying,
    ToEndingEarly,
    ToFailed,
    ToFailing,
    ToFinished,
    ToRescaling,
    ToRestarting,
    ToRunning,
    ToScheduling,
    ToStopping,
    ToSuspended,
    Transition,
)


def state_after(transition: Transition) -> State:
    """Returns the next state. The machine has not entered it yet."""
    state: State
    match transition:
        case ToScheduling():
            state = Scheduling()
        case ToDeploying():
            state = Deploying()
        case ToRunning(attempt):
            state = Running(attempt)
        case ToStopping(attempt, ticket):
            state = Stopping(attempt, ticket)
        case ToRescaling(attempt, parallelism, ticket):
            state = Rescaling(attempt, parallelism, ticket)
        case ToRestarting(failure, until_ms):
            state = Restarting(failure, until_ms)
        case ToCancelling(request, within_ms):
            state = Cancelling(request, within_ms)
        case ToEndingEarly(why):
            state = EndingEarly(why)
        case ToFailing(failure):
            state = Failing(failure)
        case ToSuspended(reason):
            state = Suspended(reason)
        case ToFinished(savepoint):
            state = Finished(savepoint)
        case ToCanceled(requests):
            state = Canceled(requests)
        case ToFailed(failure, requests):
            state = Failed(failure, requests)
        case _:
            assert_never(transition)
    return state
