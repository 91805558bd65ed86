"""A job's driver with slots and a connector host of a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace import __version__
from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, CommittableDocument, SplitDocument, SubtaskDocument
from headrace.checkpoint.stores.opening import open_store
from headrace.coordinator.driver.driver import JobDriver, JobWatch
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.fleet.fleet import Fleet, SlotHolder
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.config import JobConfig
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.provisioning.slot_pool import PooledSlot
from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.rpc import codec
from headrace.rpc.deployment import Deployment
from headrace.rpc.messages import (
    Acked,
    Address,
    Deploy,
    Deployed,
    Failure,
    FromSlot,
    SlotInfo,
    ToSlot,
    TriggerEpoch,
)
from headrace.rpc.time_settings import ClusterTimes
from headrace.spec.settings import FixedDelay
from support.processes.running import WAIT_SECONDS

JOB = "0123456789ab"
SLOT = PooledSlot("w", SlotInfo("w-1", 1, Address("127.0.0.1", 1, "")))
PIPELINE = {
    "name": "driven",
    "sources": {"numbers": {"generator": {"columns": {"id": {"sequence": {}}}}, "schema": {"id": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}


class SlowFleet(Fleet):
    """Slots of a test's own, which end when the test says so."""

    def __init__(self) -> None:
        super().__init__("c", ClusterTimes())
        self.left = asyncio.Event()
        self.retired: list[int] = []
        self.holder: SlotHolder | None = None
        """Gets a slot whenever it asks for one."""
        self.deployed: list[Deployment] = []
        self.prompt = False
        """Slots open, and acknowledge every epoch."""
        self._attempt = 0

    def request(self, job: str, attempt: int, count: int) -> None:
        if self.holder is not None:
            assert count == 1
            self.holder.granted(attempt, (SLOT,))

    def send(self, slot: PooledSlot, message: ToSlot) -> None:
        match message:
            case Deploy(job, attempt, deployment=deployment):
                self.deployed.append(Deployment.model_validate_json(deployment))
                self._attempt = attempt
                self._say(Deployed(job, attempt))
            case TriggerEpoch(epoch):
                document = SubtaskDocument(task="numbers", subtask=0, committables=(prepared(epoch),))
                self._say(Acked(JOB, self._attempt, epoch, SUBTASK_DOCUMENTS.dump_json((document,)), 1, 0, b""))
            case _:
                pass

    def _say(self, said: FromSlot) -> None:
        if self.prompt and self.holder is not None:
            asyncio.get_running_loop().call_soon(self.holder.slot_message, SLOT.slot, codec.from_slot_bytes(said))

    async def retire(self, job: str, attempt: int, slots: Sequence[PooledSlot], *, cancel: bool) -> None:
        await self.left.wait()
        self.retired.append(attempt)


def prepared(epoch: int) -> CommittableDocument:
    return CommittableDocument(sink="out", subtask=0, epoch=epoch, payload={})


class PromptHost:
    """A connector host that does at once whatever it is asked. Raises at what is named in `breaks`, once each."""

    def __init__(self, driver: JobDriver, breaks: set[str]) -> None:
        self._post = driver.post
        self.breaks = breaks

    def _break(self, name: str) -> None:
        if name in self.breaks:
            self.breaks.discard(name)
            raise ValueError("injected")

    async def open(self, pipeline: object, opening: do.OpenHost) -> None:
        self._break("open")
        split = SplitDocument(topic="numbers", partition=0, start=0)
        self._post(on.ConnectorHostOpened({"numbers": (split,)}, {"numbers": 1}, frozenset()))

    async def discover(self, source: str) -> None:
        self._break("discover")

    @property
    def process(self) -> PromptHost:
        return self

    async def describe(
        self, epoch: int, committables: tuple[CommittableDocument, ...]
    ) -> tuple[CommittableDocument, ...]:
        self._break("describe")
        return committables

    async def commit(
        self, epoch: int, committables: object, retries: Callable[[], bool]
    ) -> tuple[CommittableDocument, ...]:
        self._break("commit")
        return ()

    async def fence(self, names: object, retries: Callable[[], bool]) -> None:
        self._break("fence")

    async def sweep(self, attempt: int) -> None:
        self._break("sweep")

    async def close(self) -> None:
        self._break("close")


@dataclass
class Driven:
    """A driver without workers, and what it answered."""

    driver: JobDriver
    fleet: SlowFleet
    answers: dict[str, Failure | None] = field(default_factory=dict)
    ended: list[do.Ended] = field(default_factory=list)

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        for _ in range(int(WAIT_SECONDS / 0.01)):
            if is_so():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"not in time: {what}")


@asynccontextmanager
async def driven(
    folder: Path, history: JobHistory | None = None, kind: type[JobDriver] = JobDriver
) -> AsyncIterator[Driven]:
    plans = JobPlans(PIPELINE)
    config = JobConfig(
        job=JOB,
        name="driven",
        parallelism=1,
        plan=plans.facts,
        names=lambda _, attempt: {"out": (f"name-{attempt}",)},
        version=__version__,
        restart=FixedDelay(attempts=5, delay_ms=1),
    )
    store = open_store(str(folder / "checkpoints"))
    setup = JobSetup(config=config, plans=plans, store=store, storage=store.url, writer="w")
    fleet = SlowFleet()
    with ThreadPoolExecutor(2) as executor:
        answers: dict[str, Failure | None] = {}

        def answered(request: str, _path: str | None, failure: Failure | None, _note: str | None) -> None:
            answers[request] = failure

        ended: list[do.Ended] = []
        watch = JobWatch(changed=lambda _: None, answered=answered, ended=lambda _, how: ended.append(how))
        driver = kind(setup, fleet, executor, watch, SystemClock(), history or JobHistory())
        made = Driven(driver, fleet, answers, ended)
        made.driver.start()
        try:
            yield made
        finally:
            fleet.left.set()
            made.driver.post(on.Suspend("the test ends"))
            await made.driver.closed()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(2 * WAIT_SECONDS):
            await test()

    asyncio.run(within())
