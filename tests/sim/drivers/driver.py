"""One driver process: the product's machine and shell, with a clock, sources, an engine and a sink that are simulated.

Its blocking code is run step by step (`sim.drivers.remote`), so it may be killed or stopped between any two calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import Manifest, SplitDocument, StateHandle
from headrace.core.errors import HeadraceError
from headrace.core.source_state import SourceState
from headrace.spark.driver.driver_shell import DriverParts, DriverShell
from headrace.spark.driver.manifest import share_of
from headrace.spark.driver_machine import effects as do
from headrace.spark.driver_machine import events as on
from headrace.spark.driver_machine.epoch import Epoch, Splits, Work
from headrace.spark.driver_machine.machine import DriverMachine
from sim.drivers.blocking import UNFORESEEN, BlockingProcess, Reach
from sim.drivers.outside import behind
from sim.drivers.tasks import STORAGE
from sim.external.outside import SOURCE, TOPIC, Range
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.drivers.site import Site

IDLE_MOVES = 0.03
"""How likely a discovery without new rows finds that an idle partition moves."""


class Driver(BlockingProcess):
    """One run of the command."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site, name)
        self.asked = False
        config = site.config(name)
        surroundings = Surroundings(self)
        parts = DriverParts(
            store=surroundings.open_folder(STORAGE),
            writer=name,
            sources=surroundings,
            engine=surroundings,
            publishing=surroundings,
            clock=surroundings,
            pause=surroundings.pause,
            interval_ms=site.story.interval_ms,
            open_folder=surroundings.open_folder,
        )
        self._machine = DriverMachine(config)
        self._shell = DriverShell(config, parts)
        self._effect: do.Performed | None = None
        self._begun_ms = self._read_ms = 0
        """When this effect began, and when the journal was read."""
        self.after(self.world.between(0, 2_000), lambda: self._take(self._machine.begin()))

    def ask(self) -> None:
        """Somebody asks it to stop."""
        self.asked = True

    def _take(self, step: do.Step) -> None:
        for line in step.said:
            self.world.tell(f"{self.name}: {line}")
        match step.effect:
            case do.End():
                self._end(step.effect)
            case do.Fail(error):
                self.world.tell(f"{self.name}: fails: {error}")
                self.kill()
            case effect:
                self._effect = effect
                if self.world.happens(self.site.story.treachery):
                    self.site.betray(self)
                self.after(self.world.between(0, 5), lambda: self._perform(effect))

    def _perform(self, effect: do.Performed) -> None:
        self._begun_ms = self.world.now_ms
        self.run(lambda: self._shell.perform(effect), self._on_event)

    def _on_event(self, event: on.Event) -> None:
        self.world.tell(f"{self.name}: {type(self._effect).__name__} -> {_about(event)}")
        match event:
            case on.Failed(error) if not isinstance(error, HeadraceError) and str(error) != UNFORESEEN:
                raise ViolationError(f"{self.name}: the simulation itself has failed") from error
            case on.LeftoversRemoved():
                assert isinstance(self._effect, do.RemoveLeftovers), "it answers that"
                self.site.auditor.cleaned(self._effect.attempt, self._read_ms, self._begun_ms)
            case on.JournalRead():
                self._read_ms = self._begun_ms
            case on.SavepointWritten():
                self.site.auditor.saved(self._begun_ms)
            case on.Swept():
                self.site.auditor.swept(self._begun_ms)
            case _:
                pass
        self._take(self._machine.handle(event))

    def _end(self, end: do.End) -> None:
        self.world.tell(f"{self.name}: done")
        self.site.auditor.ended(self.name, end)
        self.site.ended(end)
        self.kill()


class Surroundings(Reach):
    """What a driver's shell works with: `Sources`, `Engine` and `Publishing` beside clock and stores."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._driver = driver

    def pause(self, wait_ms: int) -> bool:
        """Waits; whether the driver is asked to stop."""
        return bool(self._replayer.ask(lambda answer: self._driver.after(wait_ms, lambda: answer(self._driver.asked))))

    # ---- sources -------------------------------------------------------------------------------------------------

    def resolve(self, known: Splits) -> Splits:
        """A replay reads what is there now; a job that is followed goes on."""
        site = self._site
        ends = self.ask(site.brokers, site.partitions.ends)
        assert isinstance(ends, list)
        return {SOURCE: _splits(ends if site.story.bounded else site.partitions.stops)}

    def discover(self, splits: Splits, states: Mapping[str, SourceState]) -> Work | None:
        """What has come since."""
        site = self._site
        ends = self.ask(site.brokers, site.partitions.ends)
        assert isinstance(ends, list)
        read = {each.partition: each.position for state in states.values() for each in state.splits}
        stops = [split.stop for split in splits[SOURCE]]
        ended = frozenset([SOURCE]) if stops == ends else frozenset[str]()
        work = Work(splits, {SOURCE: _splits(ends)}, states, ended)
        moved = self._replayer.note(lambda: self._world.happens(IDLE_MOVES))
        fresh = any(read.get(partition, 0) < end for partition, end in enumerate(ends))
        return work if fresh or work.over or (moved and read) else None

    # ---- engine and sink -----------------------------------------------------------------------------------------

    def run(self, epoch: Epoch) -> tuple[Manifest, tuple[StateHandle, ...]]:
        """Tasks compute it."""
        result = self._replayer.ask(lambda answer: self._site.compute(self._driver, epoch, answer))
        assert isinstance(result, tuple)
        return result

    def publish(self, record: CheckpointRecord) -> None:
        """Publishes shares, one after the other in any order."""
        shares = [share_of(item) for item in record.manifest.committables]
        order = self._replayer.note(lambda: self._world.chance.sample(range(len(shares)), len(shares)))
        store = self.open_folder(STORAGE)
        for index in order:
            rows = [row for part in shares[index].files for row in _rows(store.read(part.path))]
            self._publish((record.manifest.epoch, shares[index].subtask), rows)

    def _publish(self, share: tuple[int, int], rows: Sequence[Range]) -> None:
        sink = self._site.sink
        opened = self.ask(self._site.brokers, lambda: sink.open(share))
        assert isinstance(opened, tuple)
        number, published = opened
        left = behind(rows, published)
        half = self._replayer.note(lambda: self._world.between(0, len(left)))
        for some in (left[:half], left[half:]):
            if some:
                self.ask(self._site.brokers, partial(sink.write, share, number, some))


def _splits(stops: Sequence[int | None]) -> tuple[SplitDocument, ...]:
    return tuple(
        SplitDocument(topic=TOPIC, partition=partition, start=0, stop=stop) for partition, stop in enumerate(stops)
    )


def _rows(data: bytes) -> list[Range]:
    return [(partition, first, end) for partition, first, end in json.loads(data)]


def _about(event: on.Event) -> str:
    match event:
        case on.Failed(error):
            return f"Failed: {error}"
        case on.RecordWritten(record):
            return f"{record.kind} {record.number}"
        case on.Replaced(number):
            return f"Replaced by {number}"
        case _:
            return type(event).__name__
