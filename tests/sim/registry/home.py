"""The world of one seed: one job store, one coordinator after the other, users, and the faults that befall them."""

from __future__ import annotations

from functools import partial

from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from headrace.rpc.messages import Failure
from sim.registry.auditor import Auditor
from sim.registry.coordinator import Coordinator
from sim.registry.job_store import DurableJobs
from sim.registry.outside import JobOutside
from sim.registry.story import WISHES, Story
from sim.world import World

WATCHED_MS = 3_000
TICK_MS = 1_000
JOBS_MAX = 60
"""Submissions of one seed."""


class Home:
    """A home, and who uses it."""

    def __init__(self, world: World, story: Story) -> None:
        self.world = world
        self.story = story
        self.auditor = Auditor(self)
        self.store = DurableJobs(self)
        self.outside: dict[str, JobOutside] = {}
        self._coordinators = self._submitted = self._requests = 0
        self.coordinator = self._start_coordinator()
        self._watch()
        self._tick()

    def _start_coordinator(self) -> Coordinator:
        self._coordinators += 1
        self.world.tell(f"c{self._coordinators} starts")
        return Coordinator(self, f"c{self._coordinators}")

    def _watch(self) -> None:
        """Whoever operates the cluster starts a coordinator where there is none."""
        if not self.coordinator.alive:
            self.coordinator = self._start_coordinator()
        self.world.after(self.world.between(1, WATCHED_MS), self._watch)

    def _tick(self) -> None:
        self.auditor.ticked(self.coordinator)
        self.world.after(TICK_MS, self._tick)

    def kill_coordinator(self) -> None:
        """SIGKILL."""
        self.world.tell(f"* {self.coordinator.name} is killed")
        self.coordinator.kill()

    # ---- users ---------------------------------------------------------------------------------------------------

    def wish(self) -> None:
        """A user wants something, whether the coordinator has started or not."""
        if not self.coordinator.alive:
            return
        kind = self.world.chance.choice(WISHES)
        if kind == "submit":
            if self._submitted < JOBS_MAX:
                self._submit()
        elif jobs := sorted(self.auditor.known):
            self.ask(self._one_of(jobs), kind)

    def _one_of(self, jobs: list[str]) -> str:
        """Mostly one that waits, or one of the newest."""
        chance = self.world.chance
        waiting = [job for job in jobs if self.coordinator.phase(job) is Phase.WAITING]
        drawn = chance.random()
        if waiting and drawn < 0.4:
            return chance.choice(waiting)
        return chance.choice(jobs if drawn > 0.8 else jobs[-4:])

    def _submit(self) -> None:
        chance = self.world.chance
        self._submitted += 1
        job = f"j{self._submitted:04}"
        duplicate = chance.random() < self.story.duplicates
        name = f"n{chance.randint(1, self.story.names)}"
        self.outside[job] = JobOutside(job, name, duplicate, chance.random() < self.story.once)
        self.world.tell(f"> submit {job} ({name}){' as a duplicate' if duplicate else ''}")
        self.coordinator.submit(job, name, duplicate=duplicate)

    def ask(self, job: str, kind: str) -> None:
        """A cancel, a stop or a look."""
        self.world.tell(f"> {kind} {job}")
        if kind != "look":
            self._requests += 1
            if kind == "cancel":
                self.auditor.cancel_asked(job)
            self.coordinator.ask(f"r{self._requests}", job, kind)
        elif self.coordinator.phase(job) is not None:
            entry = self.coordinator.registry.jobs[job]
            if entry.phase is not Phase.DRIVEN and entry.state in {"FINISHED", "CANCELED", "FAILED"}:
                self.auditor.told_end(job, "a look")

    # ---- faults --------------------------------------------------------------------------------------------------

    def befall(self, fault: str) -> None:
        """One fault."""
        self.world.tell(f"* {fault}")
        coordinator, now_ms = self.coordinator, self.world.now_ms
        match fault:
            case "coordinator killed":
                self.kill_coordinator()
            case "coordinator leaves" if coordinator.started and coordinator.alive:
                if self.world.happens(0.5) and self._submitted < JOBS_MAX:
                    # it has to do with a submission that is under way
                    self._submit()
                coordinator.close()
            case "job store full":
                self.store.full_until_ms = now_ms + self.world.between(500, 40_000)
            case "storage away" | "storage hangs" | "storage hopeless" if self.outside:
                self._lose_storage(fault)
            case "master breaks" | "driver finishes" | "driver fails" | "replaced from elsewhere":
                self._end_driver(fault)
            case _:
                pass

    def _lose_storage(self, fault: str) -> None:
        now_ms, world = self.world.now_ms, self.world
        hit = [each for each in self.outside.values() if world.chance.random() < 0.4]
        for each in hit:
            until_ms = now_ms + world.between(500, 90_000)
            if fault == "storage away":
                each.away_until_ms = until_ms
            elif fault == "storage hangs":
                each.hangs_until_ms = until_ms
            else:
                each.hopeless_until_ms = until_ms

    def _end_driver(self, fault: str) -> None:
        drivers = list(self.coordinator.drivers.values()) if self.coordinator.alive else []
        if not drivers:
            return
        driver = self.world.chance.choice(drivers)
        match fault:
            case "master breaks":
                driver.breaks()
            case "driver finishes":
                driver.finish(on.End("FINISHED"))
            case "driver fails":
                driver.finish(on.End("FAILED", failure=Failure("a poison row", "user", retry=False)))
            case _:
                driver.leave()

    def heal(self) -> None:
        """No more faults."""
        self.world.tell("* peace")
        self.world.calm = True
        self.store.full_until_ms = 0
        for each in self.outside.values():
            each.away_until_ms = each.hangs_until_ms = each.hopeless_until_ms = self.world.now_ms

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Every job is driven or has ended."""
        return self._all({Phase.DRIVEN, Phase.ENDED})

    @property
    def is_over(self) -> bool:
        """Every job has ended."""
        return self._all({Phase.ENDED})

    def _all(self, phases: set[Phase]) -> bool:
        coordinator = self.coordinator
        if not (coordinator.alive and coordinator.started) or coordinator.closing:
            return False
        return all(entry.phase in phases for entry in coordinator.registry.jobs.values())

    @property
    def has_left(self) -> bool:
        """Some job waits for the next coordinator."""
        coordinator = self.coordinator
        if not (coordinator.alive and coordinator.started):
            return False
        return any(entry.phase is Phase.LEFT for entry in coordinator.registry.jobs.values())

    def stop_all(self) -> None:
        """Users want everything to end."""
        for job, entry in self.coordinator.registry.jobs.items():
            if entry.phase is Phase.DRIVEN:
                self.world.after(self.world.between(0, 5_000), partial(self.ask, job, "stop"))
