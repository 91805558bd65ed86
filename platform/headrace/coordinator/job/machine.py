"""The job master's mind: events in, effects out. Pure: no clock, no I/O, no randomness.

    handle(event, now_ms) ─> effects, in order, for the driver to execute
    due_ms                ─> when to call handle(Tick(), now) though nothing happened

The caller's duties, numbered:
1. `handle` is called for one event at a time, with time that never goes back.
2. Effects are executed in the order given. Journal records are written one after the other; ReadJournal comes after
   all that was asked to be written before it.
3. Every effect that promises an event (see `effects`) gets one, or JournalFailed, HostFailed, SlotFailed, Replaced.
4. Events of slots of an older attempt are dropped.

What follows what is in `job_state.TRANSITIONS`; what a state does with an event is in the state's own file. A state
returns a transition (`states.transitions`), from which the machine makes the state that follows (`states.factory`).
"""

from __future__ import annotations

from headrace.coordinator.job.config import JobConfig, JobView
from headrace.coordinator.job.effects import Effect, Entered
from headrace.coordinator.job.events import Event, HostFailed, SlotsReleased
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import TRANSITIONS, JobState
from headrace.coordinator.job.states.base import State
from headrace.coordinator.job.states.created import Created
from headrace.coordinator.job.states.factory import state_after
from headrace.coordinator.job.states.transitions import Stay


class Machine:
    """One job's state machine."""

    def __init__(self, config: JobConfig) -> None:
        self.job = Job.accepted(config)
        self._state: State = Created()
        self._now_ms = 0

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self._state.name

    @property
    def config(self) -> JobConfig:
        """The job as it was accepted."""
        return self.job.config

    @property
    def due_ms(self) -> int | None:
        """When the machine wants a Tick; None: only events matter now."""
        return self._state.due_ms(self.job)

    @property
    def view(self) -> JobView:
        """How the job stands, for people."""
        job = self.job
        opened = job.hosted or job.attempt > 0
        return JobView(self.state, job.attempt, job.parallelism, job.message, job.alarm, opened=opened)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """What is to be done because of the event."""
        assert now_ms >= self._now_ms, "time never goes back"
        self._now_ms = now_ms
        if isinstance(event, SlotsReleased):
            self.job.releasing = max(self.job.releasing - 1, 0)
        if isinstance(event, HostFailed):
            self.job.hosted = False
        following = self._state.on(self.job, event, now_ms)
        while not isinstance(following, Stay):
            assert following.name in TRANSITIONS[self.state], f"{self.state} is not followed by {following.name}"
            self._state = state_after(following)
            position = len(self.job.effects)
            following = self._state.enter(self.job, now_ms)
            self.job.effects.insert(position, Entered(self.state, self.job.message))
        effects, self.job.effects = self.job.effects, []
        return effects
