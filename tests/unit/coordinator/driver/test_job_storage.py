"""A job's own threads, and how long a look into its storage may take."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.coordinator.driver.job_storage import JOB_THREADS_MAX, JobStorage
from headrace.core.errors import ExternalError


def test_storage_that_hangs_is_not_waited_for() -> None:
    free = threading.Event()

    async def test() -> None:
        storage = JobStorage("a", "s3://bucket/a")
        with pytest.raises(ExternalError, match=r"s3://other has not answered for 0\.01 s") as refused:
            await storage.ask(free.wait, limit_s=0.01, url="s3://other")
        assert refused.value.retry
        free.set()
        storage.close()

    asyncio.run(test())


def test_a_storage_that_was_closed_can_be_asked_again() -> None:
    async def test() -> None:
        storage = JobStorage("a", "s3://bucket/a")
        for _ in range(2):
            assert await storage.ask(lambda: 1) == 1
            storage.close()

    asyncio.run(test())


def test_a_hanging_storage_takes_its_own_threads_only() -> None:
    free = threading.Event()

    async def test() -> None:
        hanging, other = JobStorage("a", "a"), JobStorage("b", "b")
        looks = [asyncio.ensure_future(hanging.ask(free.wait)) for _ in range(JOB_THREADS_MAX + 1)]
        assert await other.ask(lambda: 1) == 1
        free.set()
        await asyncio.gather(*looks)
        hanging.close()
        other.close()

    asyncio.run(test())
