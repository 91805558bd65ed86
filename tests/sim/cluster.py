"""The whole cluster of one seed: what is in it, the faults that befall it, and how it is told that they are over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.checkpoint.paths import JOURNAL
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.job_state import JobState
from headrace.execution.plan_facts import PlanFacts
from headrace.spec.settings import NoRestart
from sim.audit.cluster import Auditor
from sim.audit.poison import Poison, PoisonAuditor
from sim.audit.transactions import TransactionAuditor
from sim.external.outside import SINK, SOURCE, Appended, Ledger, Source
from sim.external.storage import Storage, StorageFaults
from sim.external.transactions import Brokers
from sim.names import JOB, names_of_attempt
from sim.processes.coordinator import Coordinator
from sim.processes.slot import Slot
from sim.processes.worker import Worker
from sim.story import Story
from sim.world import Process, World

WATCHED_MS = 5_000
STOP_MS, STOP_SHORT_MS = 60_000, 12_000
"""The bound of a stop, in stories that are patient and in those that are not."""


class Cluster:
    """Workers, storage, the outside, and one coordinator after the other (or two at once)."""

    def __init__(self, world: World, story: Story) -> None:
        self.world = world
        self.story = story
        self.source = Source(list(story.stops), story.discovery_ms)
        self.appended = Appended()
        self.ledger = Ledger(world)
        faults = StorageFaults(story.refused, story.unanswered, story.refused_for_good)
        self.storage = Storage(world, faults, self._on_written)
        held = self.storage.objects.held
        after = None if isinstance(story.restart, NoRestart) else story.restart.poison_after
        committed = self.ledger if story.commits else None
        self.auditor = Auditor(world, committed, self.appended, self.source, held, PoisonAuditor(world, after))
        self.brokers: Brokers | None = None
        if story.transactional:
            self.auditor.transactions = TransactionAuditor(self.auditor, self.ledger)
            self.brokers = Brokers(world, self.auditor.transactions, story.lost_answers, story.denied)
            self.auditor.transactions.brokers = self.brokers.transactions
        deploying, waiting, leaving = story.patience_ms
        self.config = JobConfig(
            JOB,
            "flow",
            story.parallelism,
            self._plan,
            "1.0",
            story.checkpoint,
            story.restart,
            deploy_timeout_ms=deploying,
            slots_timeout_ms=waiting,
            cancel_timeout_ms=leaving,
            # drawn together with those
            stop_timeout_ms=STOP_MS if leaving >= STOP_SHORT_MS else STOP_SHORT_MS,
            names=partial(names_of_attempt, story),
        )
        self.poison: Poison | None = None
        """A row at which slots crash."""
        self.result: JobState | None = None
        """The end, as the job store keeps it."""
        self.endpoint: Coordinator | None = None
        """Whom workers and users find."""
        self.coordinators: list[Coordinator] = []
        self.workers: list[Worker] = []
        self._cuts: dict[str, int] = {}
        self._requests = 0
        self._wishes = {
            "savepoint asked": self._savepoint,
            "stop asked": self.stop,
            "cancel asked": self._cancel,
            "rescale asked": self._rescale,
        }
        self.start_coordinator()
        for number in range(story.workers):
            self._start_worker(f"w{number}")
        self._watch()

    @property
    def rows_outside(self) -> int:
        """How many rows are visible."""
        return sum(behind - first for ranges in self.ledger.ranges.values() for first, behind in ranges)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def start_coordinator(self) -> None:
        """Another coordinator takes the cluster's address, and the job unless that has ended."""
        if self.result is not None:
            return
        coordinator = Coordinator(self, f"c{len(self.coordinators) + 1}")
        self.world.tell(f"{coordinator.name} starts")
        self.coordinators.append(coordinator)
        self.endpoint = coordinator

    def _start_worker(self, name: str) -> None:
        self.workers.append(Worker(self, name, self.story.slots))

    def cut_until_ms(self, worker: Worker) -> int:
        """Until when the worker reaches nobody."""
        return self._cuts.get(worker.name, 0)

    def ended(self, coordinator: Coordinator, ended: do.Ended) -> None:
        """The job is over in a coordinator."""
        self.world.tell(f"{coordinator.name}: over: {ended.state.value}")
        if ended.state is not JobState.SUSPENDED:
            self.result = self.result or ended.state

    def _watch(self) -> None:
        """Whoever operates the cluster sees that nobody masters the job, and starts a coordinator anew."""
        endpoint = self.endpoint
        if endpoint is None or not endpoint.alive or endpoint.over is JobState.SUSPENDED:
            if endpoint is not None:
                endpoint.kill()
            self.start_coordinator()
        self.world.after(self.world.between(WATCHED_MS // 2, WATCHED_MS * 2), self._watch)

    def _on_written(self, path: str, data: bytes) -> None:
        self.auditor.written(path, data)
        if path.startswith(JOURNAL) and self.world.happens(self.story.treachery):
            self.betray()

    def betray(self) -> None:
        """The coordinator dies or sleeps, or brokers go away, at the worst moment."""
        faults = ["coordinator killed", "coordinator frozen"]
        fault = self.world.chance.choice(faults if self.brokers is None else [*faults, "brokers away"])
        self.world.after(0, lambda: self.befall(fault))

    # ---- faults --------------------------------------------------------------------------------------------------

    def befall(self, fault: str) -> None:
        """One fault, or one wish of a user."""
        self.world.tell(f"* {fault}")
        if fault in self._wishes and self.world.happens(0.4):
            # users do not wait for each other
            another = self.world.chance.choice([each for each in self.story.faults if each in self._wishes])
            self.world.after(self.world.between(0, 300), self._wishes[fault])
            fault = another
        wish = self._wishes.get(fault)
        if wish is not None:
            wish()
            return
        {
            "slot killed": self._kill_slot,
            "slot frozen": self._freeze_slot,
            "worker killed": self._kill_worker,
            "worker frozen": self._freeze_worker,
            "network cut": self._cut,
            "coordinator killed": self._kill_coordinator,
            "coordinator frozen": self._freeze_coordinator,
            "coordinator leaves": self._suspend,
            "storage away": self._lose_storage,
            "host killed": self._kill_host,
            "brokers away": self._lose_brokers,
            "partition added": self._add_partition,
            "row cannot be read": self._poison,
        }[fault]()

    def _kill_slot(self) -> None:
        if slot := self._some_slot():
            slot.leave()

    def _freeze_slot(self) -> None:
        if slot := self._some_slot():
            slot.frozen_ms = self.world.now_ms
            self._freeze(slot)

    def _kill_worker(self) -> None:
        if not self.workers:
            return
        self.worker_left(self.world.chance.choice(self.workers))

    def worker_left(self, worker: Worker) -> None:
        """A worker has ended, with its slots; another one takes its place."""
        worker.kill()
        for slot in worker.slots.values():
            # they see it at their pipe, unless they are frozen
            slot.after(self.world.between(1, 2_000), slot.leave)
        self.workers.remove(worker)
        name = f"{worker.name}'"
        self.world.after(self.world.between(500, 30_000), lambda: self._start_worker(name))

    def drain_worker(self) -> None:
        """A worker is to end."""
        if self.workers:
            worker = self.world.chance.choice(self.workers)
            self.world.tell(f"* {worker.name} is drained")
            worker.deliver(worker.drain)

    def _freeze_worker(self) -> None:
        if not self.workers:
            return
        worker = self.world.chance.choice(self.workers)
        worker.frozen_ms = self.world.now_ms
        self._freeze(worker)
        if self.world.happens(0.5):
            for slot in worker.slots.values():
                slot.frozen_ms = self.world.now_ms
                self._freeze(slot)

    def _cut(self) -> None:
        if not self.workers:
            return
        worker = self.world.chance.choice(self.workers)
        until_ms = self.world.now_ms + self.world.between(500, 30_000)
        self._cuts[worker.name] = until_ms
        if worker.session is not None:
            worker.session.up.blocked_until_ms = worker.session.down.blocked_until_ms = until_ms

    def _kill_coordinator(self) -> None:
        if self.endpoint is not None:
            self.endpoint.kill()
            self.endpoint = None

    def _freeze_coordinator(self) -> None:
        if self.endpoint is not None and self.endpoint.alive:
            self._freeze(self.endpoint, 60_000)
            if self.world.happens(0.7):
                self.world.after(self.world.between(1_000, 20_000), self._start_another)

    def _start_another(self) -> None:
        if not self.world.calm:
            self.start_coordinator()

    def _suspend(self) -> None:
        if self.endpoint is not None and self.endpoint.over is None:
            coordinator = self.endpoint
            coordinator.deliver(lambda: coordinator.post(on.Suspend("the coordinator ends")))

    def _lose_storage(self) -> None:
        self.storage.away_until_ms = self.world.now_ms + self.world.between(500, 60_000)

    def _kill_host(self) -> None:
        if self.endpoint is not None and self.endpoint.alive:
            self.endpoint.kill_host()

    def _lose_brokers(self) -> None:
        if self.brokers is not None:
            longest_ms = self.world.chance.choice([60_000, 2 * min(self.story.transaction_ms, 120_000)])
            self.brokers.leave(self.world.between(500, longest_ms))

    def _add_partition(self) -> None:
        if self.source.discovered_ms is not None and len(self.source.stops) < 9:
            self.source.stops.append(None)

    def _poison(self) -> None:
        if slot := self._some_slot():
            slot.poisoned = True

    def _freeze(self, process: Process, longest_ms: int = 40_000) -> None:
        process.freeze()
        self.world.after(self.world.between(500, longest_ms), process.wake)

    def lose_peer(self, lost: Slot) -> None:
        """The other slots of its attempt notice that a slot has ended."""
        for worker in self.workers:
            for slot in worker.slots.values():
                if slot is not lost and slot.attempt == lost.attempt and slot.linked:
                    slot.after(self.world.between(1, 2_000), slot.lose_peer)

    def _some_slot(self) -> Slot | None:
        slots = [slot for worker in self.workers for slot in worker.slots.values() if slot.alive]
        busy = [slot for slot in slots if slot.busy]
        return self.world.chance.choice(busy or slots) if slots else None

    # ---- users ---------------------------------------------------------------------------------------------------

    def _savepoint(self) -> None:
        self._ask(lambda request: on.SavepointAsked(request, f"savepoints/{request}"))

    def stop(self) -> None:
        """A user stops the job."""
        if self.world.chance.random() < 0.4:
            # while a savepoint is in flight
            self._savepoint()
            self.world.after(self.world.between(0, 250), self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        folder, drain = self.world.chance.random() < 0.5, self.world.chance.random() < 0.3
        self._ask(lambda request: on.StopAsked(request, f"savepoints/{request}" if folder else None, drain=drain))

    def _cancel(self) -> None:
        self._ask(on.CancelAsked)

    def _rescale(self) -> None:
        parallelism = self.world.between(1, min(3, self.story.places))
        self._ask(lambda request: on.RescaleAsked(request, parallelism))

    def _ask(self, event: Callable[[str], on.Event]) -> None:
        self._requests += 1
        if self.endpoint is not None and self.endpoint.alive:
            self.endpoint.ask(f"r{self._requests}", event(f"r{self._requests}"))

    # ---- peace ---------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """No more faults: what sleeps wakes up, and storage is back."""
        self.world.tell("* peace")
        self.world.calm = True
        self.storage.away_until_ms = 0
        if self.brokers is not None:
            self.brokers.come_back()
        self._cuts.clear()
        for worker in self.workers:
            worker.wake()
            for slot in list(worker.slots.values()):
                slot.poisoned = False
                slot.wake()
        for coordinator in self.coordinators:
            if coordinator is not self.endpoint:
                # one that was replaced while it slept must do no harm; in the end it goes, with its workers' attention
                self.world.after(self.world.between(0, 60_000), coordinator.kill)
            coordinator.wake()

    def _plan(self, parallelism: int) -> PlanFacts:
        return PlanFacts(
            plan_hash=f"plan-{parallelism}",
            slots=parallelism,
            max_parallelism=128,
            sources={SOURCE: parallelism},
            nodes={SOURCE: "source", "count": "aggregate", SINK: "sink"},
            parallelism={SOURCE: parallelism, "count": parallelism, SINK: parallelism},
            commit_within_ms=self.story.transaction_ms if self.story.transactional else None,
        )
