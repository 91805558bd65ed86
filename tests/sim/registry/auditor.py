"""What must hold of jobs and their owners, whatever fails.

1. One name has one owner, but for jobs whose users allowed a duplicate.
2. A job has one owner: a driver, or a try that may become one. A stale try becomes none.
3. A job whose user knows that it has ended (by the answer to a cancel or stop, or by a look) is never driven again,
   nor is one whose end the job store has.
4. Every request is answered once, while its coordinator lives.
5. An accepted job is driven, waits, is left with a reason, or ends, at every moment; with a cause for its end.
6. A job whose storage answers does not wait, whatever the storage of others does.
7. A job that waits when the time of its stop is over ends then.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.registry.coordinator import Coordinator
    from sim.registry.home import Home

OWNED = {Phase.WAITING, Phase.DRIVEN}
WAIT_MS = 90_000
"""A look that hangs, a pause, and slow steps between them."""


class Auditor:
    """Sees everything, of all coordinators."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._world = home.world
        self.known: set[str] = set()
        """Jobs whose users have their id."""
        self._told: dict[str, str] = {}
        self._kept: set[str] = set()
        self._causes: dict[str, set[str]] = {}
        self._waits_since: dict[tuple[Coordinator, str], int] = {}

    def accepted(self, job: str) -> None:
        """Its user receives the id."""
        self.known.add(job)

    def cancel_asked(self, job: str) -> None:
        """A user wants it canceled: from now on it may end so."""
        self._causes.setdefault(job, set()).add("CANCELED")

    def stop_due(self, coordinator: Coordinator, job: str, request: str) -> None:
        """The time of a stop is over: a job that waits ends now, as by a cancel."""
        if request in coordinator.asked and coordinator.phase(job) is Phase.WAITING:
            self.cancel_asked(job)

    def told_end(self, job: str, how: str) -> None:
        """A user knows that it has ended."""
        self._told.setdefault(job, how)
        if job not in self._kept:
            raise ViolationError(f"a user knows by {how} that job {job} has ended, and the job store does not have it")

    def driven(self, coordinator: Coordinator, job: str) -> None:
        """A driver is to be started."""
        if job in self._told:
            raise ViolationError(f"job {job} is driven again, and a user knows by {self._told[job]} that it has ended")
        if self._home.store.jobs[job].end is not None:
            raise ViolationError(f"job {job} is driven, and the job store has its end")
        if job in coordinator.drivers:
            raise ViolationError(f"job {job} has two drivers")
        if job in coordinator.tries:
            raise ViolationError(f"job {job} is driven while another try may make an owner of it")

    def driver_over(self, event: on.DriverEnded | on.MachineFailed) -> None:
        """What may be a cause of its end."""
        causes = self._causes.setdefault(event.job, set())
        if isinstance(event, on.MachineFailed):
            causes.add("FAILED")
        elif event.end is not None:
            causes.add(event.end.state)

    # ---- the job store -------------------------------------------------------------------------------------------

    def end_stored(self, job: str, end: on.End) -> None:
        """It is on disk."""
        if end.state not in self._causes.get(job, set()):
            raise ViolationError(f"job {job} is {end.state}, and nobody knows why")
        before = self._home.store.jobs[job].end
        if job in self._kept and before is not None and before.state != end.state:
            raise ViolationError(f"job {job} was {before.state} and is {end.state}")

    def end_kept(self, job: str) -> None:
        """The coordinator knows that it is."""
        self._kept.add(job)

    def end_withdrawn(self, job: str) -> None:
        """It is to be deleted."""
        if job in self._kept:
            raise ViolationError(f"the end of job {job} was kept, and is deleted")

    # ---- looks ---------------------------------------------------------------------------------------------------

    def looked(self, coordinator: Coordinator) -> None:
        """After everything that happens."""
        if not coordinator.started:
            return
        jobs = coordinator.registry.jobs
        owners = Counter(
            entry.name for job, entry in jobs.items() if entry.phase in OWNED and not self._home.outside[job].duplicate
        )
        for name, count in owners.items():
            if count > 1:
                raise ViolationError(f"{count} jobs called {name} have an owner")
        for job, entry in jobs.items():
            if entry.phase is Phase.LEFT and not (entry.waits_for or entry.elsewhere or coordinator.closing):
                raise ViolationError(f"job {job} is left without a reason")
            if entry.phase is Phase.WAITING:
                self._waits_since.setdefault((coordinator, job), self._world.now_ms)
            else:
                self._waits_since.pop((coordinator, job), None)

        for request, (job, kind) in coordinator.asked.items():
            if jobs[job].phase in {Phase.LEFT, Phase.ENDED}:
                raise ViolationError(f"nobody will answer {request}, a {kind} of job {job}, which is {jobs[job].phase}")

    def ticked(self, coordinator: Coordinator) -> None:
        """Now and then: nothing is lost, and nothing stuck."""
        if not coordinator.started or not coordinator.alive:
            return
        self.looked(coordinator)
        for job in self.known:
            phase = coordinator.phase(job)
            if phase is None:
                raise ViolationError(f"job {job} was accepted, and is lost")
            if phase is Phase.DRIVEN and job not in coordinator.drivers:
                raise ViolationError(f"job {job} counts as driven, and is not")
            since_ms = self._waits_since.get((coordinator, job))
            if phase is Phase.WAITING and since_ms is not None:
                since_ms = max(since_ms, self._home.outside[job].healthy_from_ms)
                if self._world.now_ms - since_ms > WAIT_MS:
                    raise ViolationError(f"job {job} waits, and its storage answers")

    def closed(self, coordinator: Coordinator) -> None:
        """A coordinator has ended in order, and the job store answered in time."""
        if coordinator.drivers:
            raise ViolationError(f"{coordinator.name} has ended, and still drives {list(coordinator.drivers)}")
        slow = any(coordinator.phase(job) in {Phase.ENDING, Phase.REOPENING} for job, _ in coordinator.asked.values())
        if coordinator.asked and not slow:
            raise ViolationError(f"{coordinator.name} has ended, and has not answered {coordinator.asked}")

    def over(self, coordinator: Coordinator) -> None:
        """Nothing is wrong any more, and everything has been stopped."""
        if coordinator.asked:
            raise ViolationError(f"nobody answers {coordinator.asked}")
        for job in self.known:
            stored = self._home.store.jobs.get(job)
            if stored is None or stored.end is None:
                raise ViolationError(f"job {job} was stopped, and the job store does not have its end")
