"""The job store as a disk has it: submissions and ends. Calls are slow, fail, or have their answer lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.coordinator.job_registry.events import End
from headrace.rpc.messages import Failure
from sim.world import Process, ViolationError

if TYPE_CHECKING:
    from sim.registry.home import Home

Answer = Callable[[Failure | None], None]
FULL = Failure("the disk is full", "external", retry=True)


@dataclass(slots=True)
class Stored:
    """A job's folder."""

    name: str
    end: End | None = None


@dataclass(slots=True)
class Calls:
    """Calls under way, by job: the registry promises one at a time."""

    jobs: set[str] = field(default_factory=set)


class DurableJobs:
    """What outlives every coordinator."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._world = home.world
        self.jobs: dict[str, Stored] = {}
        self.full_until_ms = 0
        self._calls: dict[Process, Calls] = {}

    def add(self, caller: Process, job: str, name: str, answer: Answer) -> None:
        """Keeps a submission."""
        self._call(caller, job, lambda: self.jobs.update({job: Stored(name)}), answer)

    def discard(self, caller: Process, job: str, answer: Answer) -> None:
        """Deletes it."""
        self._call(caller, job, lambda: self.jobs.pop(job, None), answer)

    def end(self, caller: Process, job: str, end: End, answer: Answer) -> None:
        """Keeps a job's end."""

        def keep() -> None:
            self._home.auditor.end_stored(job, end)
            self.jobs[job].end = end

        self._call(caller, job, keep, answer)

    def withdraw(self, caller: Process, job: str, answer: Answer) -> None:
        """Deletes a job's end."""

        def delete() -> None:
            self._home.auditor.end_withdrawn(job)
            self.jobs[job].end = None

        self._call(caller, job, delete, answer)

    def _call(self, caller: Process, job: str, work: Callable[[], object], answer: Answer) -> None:
        calls = self._calls.setdefault(caller, Calls())
        if job in calls.jobs:
            raise ViolationError(f"{caller.name} asks the job store twice at a time about job {job}")
        calls.jobs.add(job)
        caller.after(self._world.delay_ms(), lambda: self._do(caller, job, work, answer))

    def _do(self, caller: Process, job: str, work: Callable[[], object], answer: Answer) -> None:
        world, story = self._world, self._home.story
        failure: Failure | None = None
        if world.now_ms < self.full_until_ms or world.happens(story.refused):
            failure = FULL
        else:
            work()
            if world.happens(story.unanswered):
                failure = Failure("written, and the folder cannot be synced", "external", retry=True)
        if world.happens(story.treachery):
            self._home.kill_coordinator()

        def told() -> None:
            self._calls[caller].jobs.discard(job)
            answer(failure)

        caller.after(world.delay_ms(), told)
