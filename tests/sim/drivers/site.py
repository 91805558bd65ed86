"""The whole world of one seed: storage, sources, a sink, one driver after the other (or several at once), and the
faults that befall them."""

from __future__ import annotations

from functools import partial

from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.effects import End
from headrace.spark.driver_machine.epoch import Epoch
from headrace.spark.launch.follow import give_up
from sim.drivers.auditor import SAVED_FOLDER, Auditor
from sim.drivers.blocking import BlockingProcess, Reach, outcome_of
from sim.drivers.driver import Driver
from sim.drivers.outside import Partitions, Sink
from sim.drivers.remote import Remote
from sim.drivers.storage import WatchedStore
from sim.drivers.story import Story
from sim.drivers.tasks import STORAGE, Tasks
from sim.names import JOB
from sim.replayed import Answer
from sim.world import World

DRIVERS_MAX = 4
"""At a time."""
WATCHED_MS = 5_000


class Site:
    """What is there."""

    def __init__(self, world: World, story: Story) -> None:
        self.world = world
        self.story = story
        self.objects = WatchedStore(self._on_written, self._on_deleted)
        self.auditor = Auditor(world, story, self.objects.held)
        self.storage = Remote(world, "storage", story.storage)
        self.brokers = Remote(world, "the sink", story.sink)
        self.partitions = Partitions(world, story.stops)
        self.sink = Sink(self.auditor)
        self.drivers: list[Driver] = []
        self.is_over = False
        """The job is finished or given up; or it was stopped in calm times, and goes on another day."""
        self._count = 0
        self._tasks: list[tuple[Driver, Tasks]] = []
        self.start_driver()
        self._watch()

    def config(self, name: str) -> DriverConfig:
        """What a driver is given."""
        story = self.story
        return DriverConfig(
            job=JOB,
            storage=STORAGE,
            parallelism=story.parallelism,
            plan_hash="plan",
            unique=name.encode().hex(),
            bounded=story.bounded,
            publish=story.publish,
            savepoint=SAVED_FOLDER.rstrip("/") if story.savepoint else None,
            final=story.final,
            retained=story.retained,
            increments_max=story.increments_max,
            failures_max=story.failures_max,
        )

    # ---- drivers -------------------------------------------------------------------------------------------------

    def start_driver(self) -> None:
        """Somebody gives the command."""
        if self.is_over:
            return
        self._count += 1
        driver = Driver(self, f"d{self._count}")
        if self.world.calm and not self.story.ends:
            self.world.after(self.world.between(0, 20_000), driver.ask)
        self.world.tell(f"{driver.name} starts")
        self.drivers = [each for each in self.drivers if each.alive]
        self.drivers.append(driver)

    def ended(self, end: End) -> None:
        """A driver is done."""
        stopped = self.world.calm and not self.story.ends and not self.story.savepoint and self.auditor.is_settled
        self.is_over = self.is_over or end.finished is not None or stopped

    def compute(self, driver: Driver, epoch: Epoch, answer: Answer) -> None:
        """Tasks are sent to executors."""
        self._tasks = [each for each in self._tasks if each[1].alive]
        self._tasks.append((driver, Tasks(self, driver, epoch, answer)))

    def _kill(self, driver: Driver) -> None:
        driver.kill()
        for owner, tasks in self._tasks:
            if owner is driver:
                # executors notice sooner or later
                tasks.after(self.world.between(0, 20_000), tasks.kill)

    def _watch(self) -> None:
        """Whoever wants the job done gives the command again where no driver runs."""
        if not any(each.alive for each in self.drivers):
            self.start_driver()
        if not self.is_over:
            self.world.after(self.world.between(WATCHED_MS // 2, WATCHED_MS * 2), self._watch)

    # ---- faults --------------------------------------------------------------------------------------------------

    def betray(self, driver: Driver) -> None:
        """A driver is killed, or sleeps while another one may be started, just between two effects."""
        if self.world.happens(0.4):
            self.world.tell(f"* {driver.name} is killed")
            self._kill(driver)
        else:
            self._freeze(driver)

    def befall(self, fault: str) -> None:
        """One fault."""
        world = self.world
        alive = [each for each in self.drivers if each.alive]
        world.tell(f"* {fault}")
        match fault:
            case "another driver" if len(alive) < DRIVERS_MAX:
                self.start_driver()
            case "storage away":
                self.storage.away_until_ms = world.now_ms + world.between(500, 30_000)
            case "sink away":
                self.brokers.away_until_ms = world.now_ms + world.between(500, 30_000)
            case "driver killed" if alive:
                self._kill(world.chance.choice(alive))
            case "driver frozen" if alive:
                self._freeze(world.chance.choice(alive))
            case "stop asked" if alive:
                world.chance.choice(alive).ask()
            case "given up":
                self._give_up()
            case _:
                pass

    def _give_up(self) -> None:
        """A user wants no more of it, whatever drivers do."""
        self._count += 1
        process = BlockingProcess(self, f"u{self._count}")
        reach = Reach(process)
        store = reach.open_folder(STORAGE)
        ending = partial(give_up, JOB, store, reach, open_folder=reach.open_folder)
        process.run(lambda: outcome_of(ending), lambda given: self.world.tell(f"{process.name}: {given}"))

    def _freeze(self, driver: Driver) -> None:
        world = self.world
        world.tell(f"* {driver.name} sleeps")
        driver.freeze()
        world.after(world.chance.choice([world.between(500, 5_000), world.between(5_000, 90_000)]), driver.wake)
        if world.happens(0.7):
            world.after(world.between(0, 3_000), lambda: self.befall("another driver"))

    def heal(self) -> None:
        """No more faults: who sleeps wakes up one after the other, and everything is reached."""
        world = self.world
        world.tell("* peace")
        world.calm = True
        self.storage.away_until_ms = self.brokers.away_until_ms = 0
        for driver in self.drivers:
            world.after(world.between(0, 10_000), driver.wake)
            if not self.story.ends:
                driver.ask()

    def _on_written(self, path: str, data: bytes) -> None:
        self.auditor.written(path, data)
        self.is_over = self.is_over or self.auditor.is_given_up

    def _on_deleted(self, path: str) -> None:
        self.auditor.deleted(path)
