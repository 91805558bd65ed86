"""What must hold of leaders and of what they answered, whatever fails.

1. A job that was accepted is in the ledger of every later leader, until it is canceled and forgotten.
2. A cancellation that was answered is never undone.
3. Two jobs that were accepted and have not ended never have one name.
4. A worker obeys no coordinator of a lower term than one that it has obeyed.
5. Terms follow each other as elections do: who was elected before another one never replaces it.
6. When nothing is wrong any more one coordinator leads, and the objects of the ledger say what users were told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.world import ViolationError, World

if TYPE_CHECKING:
    from sim.leaders.coordinator import Coordinator
    from sim.leaders.worker import Worker


class Auditor:
    """Sees everything, of all coordinators."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: dict[str, str] = {}
        """Job -> name, of those that were accepted and have not ended."""
        self.ended: set[str] = set()
        self.forgotten_jobs: set[str] = set()
        self.terms: list[int] = []
        self._elections: dict[int, int] = {}
        """Term -> the place of its election."""
        self._may_have_ended: set[str] = set()

    def led(self, coordinator: Coordinator) -> None:
        """A coordinator has taken over: its ledger has what was answered before."""
        self._in_order(coordinator)
        if self.terms and coordinator.term <= self.terms[-1]:
            # one that took over before another one, and learns it late, is replaced with its next word
            return
        self.terms.append(coordinator.term)
        self.compare(coordinator)

    def _in_order(self, coordinator: Coordinator) -> None:
        term, place = coordinator.term, coordinator.session.place
        for other, its_place in self._elections.items():
            if (term > other) != (place > its_place):
                raise ViolationError(
                    f"{coordinator.name} leads in term {term}, and term {other} was elected in between"
                )
        self._elections[term] = place

    def compare(self, coordinator: Coordinator) -> None:
        """Its ledger with what users were told."""
        jobs = coordinator.ledger.jobs
        for job, name in self.accepted.items():
            if job not in jobs and job not in self.forgotten_jobs:
                raise ViolationError(f"job {job} ({name}) was accepted, and {coordinator.name} does not have it")
            if job in jobs and jobs[job].result is not None and job not in self._may_have_ended:
                raise ViolationError(f"job {job} has ended for {coordinator.name}, and nobody asked for it")
        for job in self.ended - self.forgotten_jobs:
            if job in jobs and jobs[job].result is None:
                raise ViolationError(f"the end of job {job} was answered, and {coordinator.name} does not have it")

    def told_accepted(self, coordinator: Coordinator, job: str, name: str) -> None:
        """A user receives the job's id."""
        if job in self.ended or job in self._may_have_ended:
            # the answer was late: its coordinator was suspended, and another one has ended the job meanwhile
            return
        twins = [each for each, other in self.accepted.items() if other == name and each not in self._may_have_ended]
        if twins:
            raise ViolationError(f"{coordinator.name} accepts job {job}, and {twins[0]} has its name {name}")
        self.accepted[job] = name

    def end_asked(self, job: str) -> None:
        """A user wants it to end: from now on it may."""
        self._may_have_ended.add(job)

    def told_ended(self, coordinator: Coordinator, job: str) -> None:
        """A user knows that it has ended."""
        self.accepted.pop(job, None)
        self.ended.add(job)

    def forgotten(self, job: str) -> None:
        """It has ended, and need not be kept any more."""
        self.forgotten_jobs.add(job)

    def knows(self, coordinator: Coordinator) -> None:
        """After each call of the ledger."""
        coordinator.check()

    def obeyed(self, worker: Worker, term: int) -> None:
        """A worker does what a coordinator of that term said."""
        if term < worker.obeyed:
            raise ViolationError(f"{worker.name} obeys term {term} after {worker.obeyed}")
        worker.obeyed = term
