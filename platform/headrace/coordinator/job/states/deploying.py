"""DEPLOYING: the attempt's record is in the journal; every slot opens, restores and connects its subtasks."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.effects import Answer, DeploySlots
from headrace.coordinator.job.events import ConnectorHostFailed, Event, SlotDeployed, SlotFailed, Tick
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import after_failure, on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToRunning, ToStopping
from headrace.core.errors import Domain
from headrace.core.text.plural import plural
from headrace.rpc.messages import Failure


class Deploying:
    """Waits until every slot has deployed."""

    name: ClassVar[JobState] = JobState.DEPLOYING

    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._deadline_ms = 0

    def enter(self, job: Job, now_ms: int) -> Next:
        """Sends the deployments."""
        slots = job.facts.slots
        job.began_with = job.restored if job.restored_own else None
        self._waiting = set(range(slots))
        self._deadline_ms = now_ms + job.config.deploy_timeout_ms
        job.message = f"opening {plural(slots, 'slot')}"
        job.do(DeploySlots(job.attempt, job.parallelism, job.restored, job.restored_own, job.reused, job.formats))
        return STAY

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Starts the attempt when the last slot has deployed."""
        match event:
            case SlotDeployed(index):
                self._waiting.discard(index)
                return STAY if self._waiting else self._start(job, now_ms)
            case SlotFailed(_, failure) | ConnectorHostFailed(failure):
                return after_failure(job, failure, now_ms)
            case Tick() if now_ms >= self._deadline_ms:
                late = ", ".join(str(index) for index in sorted(self._waiting))
                text = f"slot {late} did not open within {job.config.deploy_timeout_ms // 1000} s"
                return after_failure(job, Failure(text, Domain.EXTERNAL, retry=True), now_ms)
            case _:
                return on_any(self.name, job, event, now_ms)

    def due_ms(self, job: Job) -> int | None:
        """The time at which slots exceed `deploy_timeout_ms`."""
        return self._deadline_ms

    def _start(self, job: Job, now_ms: int) -> Next:
        attempt = Attempt(job, now_ms)
        attempt.assign_all(job)
        job.message = ""
        job.raise_alarm(None)
        job.ran = True
        if job.rescale is not None:
            job.do(Answer(job.rescale.id))
            job.rescale = None
        # a stop may have been requested meanwhile, or the journal may contain one
        return ToRunning(attempt) if job.stop is None else ToStopping(attempt)
