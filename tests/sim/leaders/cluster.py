"""The world of one seed: coordinators over one ledger, an election, workers, users, and the faults that befall them."""

from __future__ import annotations

from sim.drivers.remote import Remote
from sim.drivers.storage import WatchedStore
from sim.leaders.auditor import Auditor
from sim.leaders.coordinator import Coordinator
from sim.leaders.election import Election
from sim.leaders.story import Story
from sim.leaders.worker import Worker
from sim.world import World

COMMAND_MS = 700
TICK_MS = 1_000
JOBS_MAX = 60
WISHES = ("submit", "submit", "submit", "cancel", "attempt", "attempt", "forget")


class Cluster:
    """A cluster with standbys, and who uses it."""

    def __init__(self, world: World, story: Story) -> None:
        self.world = world
        self.story = story
        self.auditor = Auditor(world)
        self.objects = WatchedStore(lambda _path, _data: None, lambda _path: None)
        self.storage = Remote(world, "storage", story.storage)
        self.election = Election(self)
        self._runs = self._submitted = 0
        self.coordinators = [self._start() for _ in range(story.coordinators)]
        self.workers = [Worker(self, f"w{number}") for number in range(story.workers)]
        self._tick()
        self._command()

    def _start(self) -> Coordinator:
        self._runs += 1
        self.world.tell(f"c{self._runs} starts")
        return Coordinator(self, f"c{self._runs}")

    def restart(self, before: Coordinator, delay_ms: int) -> None:
        """Another run takes the place of one that is over."""
        place = self.coordinators.index(before)

        def start() -> None:
            self.coordinators[place] = self._start()

        self.world.after(delay_ms, start)

    def leaders(self) -> list[Coordinator]:
        """Those that believe to lead, the last one of them first."""
        return sorted((each for each in self.coordinators if each.leads), key=lambda each: -each.term)

    def _tick(self) -> None:
        for coordinator in self.leaders():
            coordinator.check()
        self.world.after(TICK_MS, self._tick)

    def _command(self) -> None:
        """Every coordinator that believes to lead commands the workers, until it learns better."""
        for coordinator in self.leaders():
            if coordinator.awake:
                for worker in self.workers:
                    worker.command(coordinator.term)
        self.world.after(COMMAND_MS, self._command)

    # ---- users -------------------------------------------------------------------------------------------------------

    def wish(self) -> None:
        """A user wants something of a coordinator that believes to lead, the last one or another."""
        chance = self.world.chance
        leading = [each for each in self.leaders() if each.awake]
        if not leading:
            return
        leader = leading[0] if chance.random() < 0.7 else chance.choice(leading)
        jobs = sorted(leader.ledger.jobs)
        match chance.choice(WISHES):
            case "submit":
                self._submit(leader)
            case "cancel" if jobs:
                self._cancel(leader, chance.choice(jobs))
            case "attempt" if jobs:
                leader.note_attempt(chance.choice(jobs))
            case "forget":
                leader.forget()
            case _:
                pass

    def _submit(self, leader: Coordinator) -> None:
        if self._submitted >= JOBS_MAX:
            return
        self._submitted += 1
        job, name = f"j{self._submitted:04}", f"n{self.world.chance.randint(1, self.story.names)}"
        self.world.tell(f"> submit {job} ({name}) to {leader.name}")

        def answered(accepted: bool) -> None:
            self.world.tell(f"{leader.name}: {job} is {'accepted' if accepted else 'refused'}")
            if accepted:
                self.auditor.told_accepted(leader, job, name)

        leader.submit(job, name, answered)

    def _cancel(self, leader: Coordinator, job: str) -> None:
        self.world.tell(f"> cancel {job} at {leader.name}")
        self.auditor.end_asked(job)

        def answered(ended: bool) -> None:
            if ended:
                self.world.tell(f"{leader.name}: {job} has ended")
                self.auditor.told_ended(leader, job)

        leader.end(job, answered)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def befall(self, fault: str) -> None:
        """One fault."""
        self.world.tell(f"* {fault}")
        chance, now_ms = self.world.chance, self.world.now_ms
        leaders = self.leaders()
        hit = leaders[0] if leaders and fault.startswith("leader") else chance.choice(self.coordinators)
        until_ms = now_ms + self.world.between(200, 4 * self.story.lease_ms)
        match fault:
            case "leader killed" | "coordinator killed" if hit.alive:
                hit.kill()
                self.restart(hit, self.world.between(100, 20_000))
            case "leader suspended" | "coordinator suspended":
                self.suspend(hit)
            case "leader cut from election":
                hit.cut_from_election_ms = until_ms
            case "leader cut from storage":
                hit.cut_from_storage_ms = now_ms + self.world.between(200, 90_000)
            case "election stands still":
                self.election.stands_still_until_ms = until_ms
            case "storage away":
                self.storage.away_until_ms = until_ms
            case "clock jumps":
                hit.clock_ms = chance.randint(-3_600_000, 3_600_000)
            case "worker cut":
                chance.choice(self.workers).cut_until_ms = until_ms
            case _:
                pass

    def suspend(self, coordinator: Coordinator) -> None:
        """SIGSTOP, and SIGCONT in a while."""
        if coordinator.awake:
            self.world.tell(f"* {coordinator.name} is suspended")
            coordinator.freeze()
            self.world.after(self.world.between(200, 4 * self.story.lease_ms), lambda: self._wake(coordinator))

    def mistreat(self, coordinator: Coordinator) -> None:
        """Another one may be elected, and this one learns it late."""
        if self.world.happens(0.5):
            self.suspend(coordinator)
        else:
            self.world.tell(f"* {coordinator.name} is cut off from the election")
            coordinator.cut_from_election_ms = self.world.now_ms + self.world.between(200, 8 * self.story.lease_ms)

    def _wake(self, coordinator: Coordinator) -> None:
        self.world.tell(f"* {coordinator.name} wakes")
        coordinator.wake()

    def heal(self) -> None:
        """No more faults."""
        self.world.tell("* peace")
        self.world.calm = True
        now_ms = self.world.now_ms
        self.election.stands_still_until_ms = self.storage.away_until_ms = now_ms
        for coordinator in self.coordinators:
            coordinator.cut_from_election_ms = coordinator.cut_from_storage_ms = now_ms
            if coordinator.frozen:
                coordinator.wake()

    @property
    def is_settled(self) -> bool:
        """One coordinator leads, as published, and does not hold."""
        leaders = self.leaders()
        published = self.election.published
        return (
            len(leaders) == 1
            and not leaders[0].is_holding
            and published is not None
            and published.term == leaders[0].term
        )
