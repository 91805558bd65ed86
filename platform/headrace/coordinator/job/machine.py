"""The job's state machine (Flink: JobMaster): events in, effects out. Pure: no clock, no I/O, no randomness.

    handle(event, now_ms) ─> effects, in order, for the driver to execute
    due_ms                ─> when to call handle(Tick(), now) if no event arrives before

The caller's duties:

1. The caller passes one event at a time, with a time that never decreases.
2. The caller executes effects in order. It writes journal records one after the other, and executes ReadJournal after
   all records that were requested before it.
3. Every effect that promises an event (see `effects`) ends in that event, or in JournalFailed, ConnectorHostFailed,
   SlotFailed or Replaced.
4. The caller drops events of slots of an older attempt.

`job_state.TRANSITIONS` holds the allowed transitions; a state's own file defines its reaction to an event. A state
returns a transition (`states.transitions`), from which the machine makes the next state (`state_after`).
"""

from __future__ import annotations

from typing import ClassVar, Protocol, assert_never

from headrace.coordinator.job.config import JobConfig, JobView
from headrace.coordinator.job.effects import Effect, Entered
from headrace.coordinator.job.events import ConnectorHostFailed, Event, SlotsReleased, StopDue, Tick
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import ENDING, TRANSITIONS, JobState
from headrace.coordinator.job.states import transitions
from headrace.coordinator.job.states.cancelling import Cancelling
from headrace.coordinator.job.states.created import Created
from headrace.coordinator.job.states.deploying import Deploying
from headrace.coordinator.job.states.ending_early import EndingEarly
from headrace.coordinator.job.states.failing import Failing
from headrace.coordinator.job.states.rescaling import Rescaling
from headrace.coordinator.job.states.restarting import Restarting
from headrace.coordinator.job.states.running import Running
from headrace.coordinator.job.states.scheduling import Scheduling
from headrace.coordinator.job.states.stopping import Stopping
from headrace.coordinator.job.states.terminal.canceled import Canceled
from headrace.coordinator.job.states.terminal.failed import Failed
from headrace.coordinator.job.states.terminal.finished import Finished
from headrace.coordinator.job.states.terminal.suspended import Suspended


class State(Protocol):
    """One state of a job. It returns `Stay`, or a transition to the next state, which the machine then enters."""

    name: ClassVar[JobState]

    def enter(self, job: Job, now_ms: int) -> transitions.Next:
        """Called when the state begins. Returns `STAY`, or a transition that follows at once."""
        ...

    def on(self, job: Job, event: Event, now_ms: int) -> transitions.Next:
        """Handles an event. Ignores events that the state does not expect: they are late."""
        ...

    def due_ms(self, job: Job) -> int | None:
        """The time at which the state needs a Tick (ms); None: it needs none."""
        ...


class Machine:
    """One job's state machine."""

    def __init__(self, config: JobConfig) -> None:
        self.job = Job.accepted(config)
        self._state: State = Created()
        self._now_ms = 0

    @property
    def state(self) -> JobState:
        """The state of the job."""
        return self._state.name

    @property
    def config(self) -> JobConfig:
        """The job as it was accepted."""
        return self.job.config

    @property
    def due_ms(self) -> int | None:
        """When the machine needs a Tick; None: it only waits for events."""
        times = (self._state.due_ms(self.job), self._stop_gives_up_ms)
        return min((each for each in times if each is not None), default=None)

    @property
    def _stop_gives_up_ms(self) -> int | None:
        """When a requested stop gives up its last checkpoint; None: none is requested, or the job ends anyway."""
        return None if self.job.stop is None or self.state in ENDING else self.job.stop.gives_up_ms

    @property
    def view(self) -> JobView:
        """The state of the job, as users see it."""
        job = self.job
        opened = job.hosted or job.attempt > 0
        return JobView(self.state, job.attempt, job.parallelism, job.message, job.alarm, opened=opened)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handles an event. Returns the effects, in order."""
        assert now_ms >= self._now_ms, "time never goes back"
        self._now_ms = now_ms
        # these two facts stay true after the state that receives the event has ended
        if isinstance(event, SlotsReleased):
            self.job.releasing = max(self.job.releasing - 1, 0)
        if isinstance(event, ConnectorHostFailed):
            self.job.hosted = False
        if isinstance(event, Tick) and (gives_up_ms := self._stop_gives_up_ms) is not None and now_ms >= gives_up_ms:
            event = StopDue()
        following = self._state.on(self.job, event, now_ms)
        while not isinstance(following, transitions.Stay):
            assert following.name in TRANSITIONS[self.state], f"{self.state} is not followed by {following.name}"
            self._state = state_after(following)
            position = len(self.job.effects)
            following = self._state.enter(self.job, now_ms)
            # Entered goes before the effects of `enter`, so that the history has the state before they are executed
            self.job.effects.insert(position, Entered(self.state, self.job.message))
        effects, self.job.effects = self.job.effects, []
        return effects


def state_after(transition: transitions.Transition) -> State:
    """Returns the next state. The machine has not entered it yet."""
    state: State
    match transition:
        case transitions.ToScheduling():
            state = Scheduling()
        case transitions.ToDeploying():
            state = Deploying()
        case transitions.ToRunning(attempt):
            state = Running(attempt)
        case transitions.ToStopping(attempt, ticket):
            state = Stopping(attempt, ticket)
        case transitions.ToRescaling(attempt, parallelism, ticket):
            state = Rescaling(attempt, parallelism, ticket)
        case transitions.ToRestarting(failure, until_ms):
            state = Restarting(failure, until_ms)
        case transitions.ToCancelling(request, within_ms):
            state = Cancelling(request, within_ms)
        case transitions.ToEndingEarly(why):
            state = EndingEarly(why)
        case transitions.ToFailing(failure):
            state = Failing(failure)
        case transitions.ToSuspended(reason):
            state = Suspended(reason)
        case transitions.ToFinished(savepoint):
            state = Finished(savepoint)
        case transitions.ToCanceled(requests):
            state = Canceled(requests)
        case transitions.ToFailed(failure, requests):
            state = Failed(failure, requests)
        case _:
            assert_never(transition)
    return state
