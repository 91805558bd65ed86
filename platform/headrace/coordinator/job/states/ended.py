"""What the states that nothing follows share: everyone who waits is told, the connector host is closed."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.effects import Answer, CloseHost, Ended
from headrace.coordinator.job.events import CancelAsked, Event, RescaleAsked, SavepointAsked, StopAsked
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.base import refuse
from headrace.coordinator.job.states.transitions import STAY, Next
from headrace.rpc.messages import Failure


class Over:
    """Base of FINISHED, CANCELED, FAILED and SUSPENDED."""

    name: ClassVar[JobState]

    def __init__(self, savepoint: str | None = None, failure: Failure | None = None) -> None:
        self._savepoint = savepoint
        self._failure = failure

    def enter(self, job: Job, now_ms: int) -> Next:
        """Closes everything."""
        job.message = ""
        job.savepoint = self._savepoint
        job.failure = self._failure
        job.raise_alarm(None)
        self.answer(job)
        job.stop = job.rescale = None
        job.do(CloseHost(), Ended(self.name, self._savepoint, self._failure, job.facts.parallelism))
        return STAY

    def answer(self, job: Job) -> None:
        """Tells those who wait for something that it will not come."""
        text = f"job {job.config.job} is {self.name.value}"
        because = self._failure or Failure(text, "user", retry=False)
        job.fail_request(job.stop, because)
        job.fail_request(job.rescale, because)

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Nothing happens any more."""
        match event:
            case SavepointAsked(request) | StopAsked(request) | RescaleAsked(request) | CancelAsked(request):
                refuse(job, request, self.name)
            case _:
                pass
        return STAY

    def due_ms(self, job: Job) -> int | None:
        """Never."""
        return None


def answered(job: Job, request: str | None, path: str | None = None) -> None:
    """Tells a user that it worked."""
    if request:
        job.do(Answer(request, path=path))
