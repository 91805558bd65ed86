"""What users requested outlives the coordinator that they asked: submissions by their key, operations by their trigger.

There are no workers: jobs wait for slots.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.client.requests import SubmitRequest
from headrace.coordinator.ledger.records import JobResult, TriggerKept
from headrace.coordinator.rest.service import JobConflictError
from headrace.coordinator.store.job_store import open_job_store
from headrace.core.settings import Home
from support.control.dispatching import JOB, dispatching, pipeline, run, status_of, stored, until, until_answered, waits


def keyed(key: str, name: str = "keyed") -> SubmitRequest:
    return SubmitRequest(pipeline=pipeline(name), key=key)


def test_a_submission_that_is_sent_again_is_the_job_of_the_first_time(tmp_path: Path) -> None:
    home = Home(tmp_path)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            job, again = await asyncio.gather(dispatcher.submit(keyed("a")), dispatcher.submit(keyed("a")))
            assert again == job
            with pytest.raises(JobConflictError, match="of that name"):
                await dispatcher.submit(keyed("b"))
        async with dispatching(home) as dispatcher:
            assert await dispatcher.submit(keyed("a")) == job
            await until_answered(dispatcher, await dispatcher.cancel(job))
            # it has ended, and is still the job of that key
            assert await dispatcher.submit(keyed("a")) == job
            assert await dispatcher.submit(keyed("b")) != job

    run(test)


def test_a_submission_that_failed_may_be_sent_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            other = await dispatcher.submit(keyed("a"))
            with pytest.raises(JobConflictError):
                await dispatcher.submit(keyed("b"))
            await until_answered(dispatcher, await dispatcher.cancel(other))
            assert await dispatcher.submit(keyed("b")) != other

    run(test)


def test_a_stop_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")
            # an attempt has to write its savepoint
            stop = await dispatcher.stop(JOB, str(tmp_path / "saved"), drain=False)
            assert stop.status == "in-progress"
        async with dispatching(home) as dispatcher:
            assert await status_of(dispatcher, stop) == "in-progress"
            cancel = await dispatcher.cancel(JOB)
            answered = await until_answered(dispatcher, stop)
            assert answered.error is not None
            assert (await until_answered(dispatcher, cancel)).status == "completed"
        async with dispatching(home) as dispatcher:
            assert await status_of(dispatcher, stop) == "failed"
            assert await status_of(dispatcher, cancel) == "completed"

    run(test)


def test_a_cancel_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)
    open_job_store(home).keep_trigger(TriggerKept(trigger="t", job=JOB, operation="cancel"))

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            trigger = await dispatcher.trigger(JOB, "t")
            assert (await until_answered(dispatcher, trigger)).status == "completed"
            assert (await dispatcher.job(JOB)).state == "CANCELED"

    run(test)


def test_a_stop_with_which_the_job_has_ended_is_completed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)
    store = open_job_store(home)
    store.end(JOB, JobResult(state="FINISHED", ended_at_ms=1, savepoint="file:///kept"))
    store.keep_trigger(TriggerKept(trigger="stop", job=JOB, operation="stop"))
    store.keep_trigger(TriggerKept(trigger="cancel", job=JOB, operation="cancel"))

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            stop = await dispatcher.trigger(JOB, "stop")
            assert (stop.status, stop.path) == ("completed", "file:///kept")
            cancel = await dispatcher.trigger(JOB, "cancel")
            assert cancel.error is not None
            assert "FINISHED" in cancel.error.message

    run(test)


def test_a_savepoint_is_answered(tmp_path: Path) -> None:
    """It needs an attempt that runs, and the one that took it is over: as if that had failed."""
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)
    open_job_store(home).keep_trigger(TriggerKept(trigger="t", job=JOB, operation="savepoint"))

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            savepoint = await dispatcher.trigger(JOB, "t")
            assert savepoint.error is not None
            assert savepoint.error.retry
            assert "its coordinator has ended" in savepoint.error.message
        # the answer was recorded
        store = open_job_store(home)
        store.load_all()
        (kept,) = store.triggers
        assert kept.status == "failed"

    run(test)
