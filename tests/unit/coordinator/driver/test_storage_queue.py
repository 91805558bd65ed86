"""The queue to a job's storage: order, patience, and what may hold up what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from headrace.coordinator.driver import storage_queue
from headrace.coordinator.driver.storage_queue import StorageQueue
from headrace.core.errors import ExternalError
from support.processes.running import WAIT_SECONDS


@dataclass
class Heard:
    """What the queue said, in order."""

    words: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, queue: StorageQueue, name: str, *, failures: int | None = 0, patience_s: float | None = None) -> None:
        """Work that fails so many times (None: always) with an error that may pass."""
        left = [failures]

        def run() -> str:
            if left[0] is None or left[0] > 0:
                left[0] = None if left[0] is None else left[0] - 1
                raise ExternalError("away", retry=True)
            return name

        self_words = self.words

        def done(word: str) -> None:
            self_words.append(word)
            self.changed.set()

        def failed(_: Exception) -> None:
            self_words.append(f"{name} failed")
            self.changed.set()

        queue.put(name, run, done, failed, patience_s=patience_s)

    async def until(self, count: int) -> list[str]:
        """The words, once there are as many."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.words) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.words


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def test_what_may_pass_is_tried_again_and_what_is_behind_it_waits(executor: ThreadPoolExecutor) -> None:
    async def test() -> None:
        queue, heard = StorageQueue(executor, "job j"), Heard()
        heard.put(queue, "record", failures=2)
        heard.put(queue, "read")
        assert await heard.until(2) == ["record", "read"]
        await queue.close()

    asyncio.run(test())


def test_what_is_not_worth_waiting_for_holds_up_nothing(executor: ThreadPoolExecutor) -> None:
    """A bucket that lets nobody delete: pruning fails each time, and checkpoints go on."""

    async def test() -> None:
        queue, heard = StorageQueue(executor, "job j"), Heard()
        heard.put(queue, "prune", failures=None, patience_s=0.0)
        heard.put(queue, "record")
        assert await heard.until(2) == ["prune failed", "record"]
        await queue.close()

    asyncio.run(test())


def test_the_end_of_a_job_ends_all_patience(executor: ThreadPoolExecutor) -> None:
    async def test() -> None:
        queue, heard = StorageQueue(executor, "job j"), Heard()
        heard.put(queue, "record", failures=None)
        heard.put(queue, "savepoint", failures=None, patience_s=60.0)
        async with asyncio.timeout(WAIT_SECONDS):
            await queue.close()
        assert heard.words == ["record failed", "savepoint failed"]

    asyncio.run(test())


class Hanging:
    """Work that does not return until it is let go."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()
        self.runs = 0

    def put(self, queue: StorageQueue, heard: Heard) -> None:
        def run() -> str:
            self.runs += 1
            self.begun.set()
            self.free.wait()
            raise ExternalError("it was away", retry=True)

        def failed(error: Exception) -> None:
            heard.words.append(str(error))
            heard.changed.set()

        queue.put("hangs", run, lambda _: None, failed)


def test_storage_that_hangs_is_told_of_and_not_asked_twice_at_once(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_queue, "SILENT_S", 0.01)

    async def test() -> None:
        queue, heard, hanging = StorageQueue(executor, "job j"), Heard(), Hanging()
        hanging.put(queue, heard)
        heard.put(queue, "record")
        async with asyncio.timeout(WAIT_SECONDS):
            while queue.trouble is None:
                await asyncio.sleep(0.01)
        assert queue.trouble == "hangs: storage has not answered for more than 0.01 s"
        assert (hanging.runs, heard.words) == (1, [])
        queue.hurry(0.0)
        hanging.free.set()
        assert len(await heard.until(2)) == 2
        assert "it was away" in heard.words[0] and heard.words[1] == "record"
        await queue.close()

    asyncio.run(test())


def test_a_job_that_has_to_end_leaves_storage_that_hangs(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_queue, "ANSWER_S", 0.01)

    async def test() -> None:
        queue, heard, hanging = StorageQueue(executor, "job j"), Heard(), Hanging()
        hanging.put(queue, heard)
        heard.put(queue, "record")
        queue.hurry(60.0)
        words = await heard.until(2)
        assert "has not answered for 0.01 s, and the job has to end" in words[0]
        assert words[1] == "record failed", "it must not run beside the call that hangs"
        hanging.free.set()
        heard.put(queue, "end", patience_s=60.0)
        async with asyncio.timeout(WAIT_SECONDS):
            while (await heard.until(3))[-1] == "end failed":
                heard.words.pop()
                heard.put(queue, "end")
        assert heard.words[-1] == "end"
        await queue.close()

    asyncio.run(test())
