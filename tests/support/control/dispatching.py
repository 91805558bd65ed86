"""A dispatcher in this process, without workers: its jobs wait for slots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.paths import job_url
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import JobStatus, Trigger
from headrace.client.requests import SubmitRequest
from headrace.coordinator.dispatch.accepted_job import Surroundings
from headrace.coordinator.dispatch.dispatcher import Dispatcher
from headrace.coordinator.dispatch.term_handlers import TermHandlers
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.store.job_store import JobStore, open_job_store
from headrace.coordinator.store.submission import JobSubmission, SubmissionOptions
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.core.settings import Home
from headrace.processes.spawning import SpawnStarter
from headrace.rpc.time_settings import ClusterTimes
from support.processes.running import WAIT_SECONDS
from support.storage.checkpoints import attempt, checkpoint, committed

JOB = "0123456789ab"


def pipeline(name: str = "driven") -> dict[str, Any]:
    columns: dict[str, Any] = {"id": {"sequence": {}}}
    return {
        "name": name,
        "sources": {"numbers": {"generator": {"columns": columns}, "schema": {"id": "int64"}}},
        "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
    }


def dispatcher_of(home: Home, fleet: Fleet, on_over: Callable[[object], None] | None = None) -> Dispatcher:
    """The dispatcher of a coordinator that leads."""
    clock = SystemClock()
    surroundings = Surroundings(home, clock, str(home.checkpoints), SpawnStarter())
    handlers = TermHandlers(lambda: None, on_over or (lambda _event: None))
    return Dispatcher(surroundings, "c", open_job_store(home, clock), fleet, handlers)


@asynccontextmanager
async def dispatching(home: Home, on_over: Callable[[object], None] | None = None) -> AsyncIterator[Dispatcher]:
    dispatcher = dispatcher_of(home, Fleet("c", ClusterTimes()), on_over)
    await dispatcher.start()
    try:
        yield dispatcher
    finally:
        await dispatcher.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(2 * WAIT_SECONDS):
            await test()

    asyncio.run(within())


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(int(WAIT_SECONDS / 0.01)):
        if await is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not in time: {what}")


async def canceled(dispatcher: Dispatcher, name: str) -> str:
    """A job that was submitted and canceled."""
    job = await dispatcher.submit(SubmitRequest(pipeline=pipeline(name)))
    await dispatcher.cancel(job)

    async def ended() -> bool:
        return (await dispatcher.job(job)).state == "CANCELED"

    await until(ended, "CANCELED")
    return job


def stored(home: Home, from_savepoint: str, *, checkpoints: bool, job: str = JOB, name: str = "driven") -> None:
    """A job of an earlier coordinator, with a checkpoint of its own or without."""
    storage = job_url(str(home.checkpoints), job)
    options = SubmissionOptions(parallelism=1, from_savepoint=from_savepoint)
    submission = JobSubmission(
        job=job, name=name, pipeline=pipeline(name), options=options, submitted_at_ms=1, storage=storage
    )
    open_job_store(home).add(submission)
    journal = JournalStore(open_store(storage), "", "earlier")
    journal.append(attempt(1, savepoint=from_savepoint))
    if checkpoints:
        journal.append(checkpoint(1))
        journal.append(committed(1))


def is_driven(status: JobStatus) -> bool:
    """Its journal is read: it opens its host, or waits for slots, of which there are none."""
    message = status.message or ""
    return status.state == "SCHEDULING" and ("opening" in message or "slot" in message)


async def waits(dispatcher: Dispatcher, job: str = JOB) -> bool:
    status = await dispatcher.job(job)
    return is_driven(status)


class Gate:
    """A call of the job store that waits until it is let through; it may fail then, before or after it is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.fails: str | None = None
        original = getattr(JobStore, name)

        def gated(store: JobStore, *arguments: Any) -> Any:
            self.reached.set()
            assert self.open.wait(WAIT_SECONDS)
            fails, self.fails = self.fails, None
            if fails != "before":
                answer = original(store, *arguments)
            if fails is not None:
                raise ExternalError("no space left", retry=True)
            return answer

        monkeypatch.setattr(JobStore, name, gated)

    async def until_reached(self) -> None:
        async def is_reached() -> bool:
            return self.reached.is_set()

        await until(is_reached, "the job store to be asked")


async def status_of(dispatcher: Dispatcher, trigger: Trigger) -> str:
    return (await dispatcher.trigger(trigger.job_id, trigger.trigger_id)).status


async def until_answered(dispatcher: Dispatcher, trigger: Trigger) -> Trigger:
    async def is_answered() -> bool:
        return await status_of(dispatcher, trigger) != "in-progress"

    await until(is_answered, "an answer")
    return await dispatcher.trigger(trigger.job_id, trigger.trigger_id)
