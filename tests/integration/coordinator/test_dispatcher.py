"""The dispatcher over restarts and at awkward moments. There are no workers: its jobs wait for slots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.journal_shell import JournalStore
from headrace.checkpoint.paths import default_storage, job_url
from headrace.checkpoint.store import open_store
from headrace.client.models import JobStatus, SubmitRequest, Trigger
from headrace.coordinator import dispatcher as dispatcher_module
from headrace.coordinator import effects as do
from headrace.coordinator import events as on
from headrace.coordinator import job_store, registry_shell
from headrace.coordinator.dispatcher import Dispatcher
from headrace.coordinator.fleet import Fleet
from headrace.coordinator.job_store import JobStore, JobSubmission
from headrace.coordinator.machine import Machine
from headrace.coordinator.preparation import earlier_origin
from headrace.coordinator.service import JobConflict
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError, InvalidPipeline
from headrace.core.settings import Home
from headrace.rpc.messages import ClusterTimes
from support.checkpoints import attempt, checkpoint, committed
from support.running import WAIT_SECONDS

JOB = "0123456789ab"


def pipeline(name: str = "driven") -> dict[str, Any]:
    columns: dict[str, Any] = {"id": {"sequence": {}}}
    return {
        "name": name,
        "sources": {"numbers": {"generator": {"columns": columns}, "schema": {"id": "int64"}}},
        "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
    }


@asynccontextmanager
async def dispatching(home: Home) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(home, "c", Fleet("c", ClusterTimes()), SystemClock(), lambda: None)
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
    storage = job_url(default_storage(home), job)
    options = {
        "parallelism": 1,
        "from_savepoint": from_savepoint,
        "renames": {},
        "code": [],
        "python_path": [],
        "floors": [],
    }
    submission = JobSubmission(
        job=job, name=name, pipeline=pipeline(name), options=options, submitted_at_ms=1, storage=storage
    )
    JobStore(home.jobs).add(submission)
    journal = JournalStore(open_store(storage), "", "earlier")
    journal.append(attempt(1, savepoint=from_savepoint))
    if checkpoints:
        journal.append(checkpoint(1))
        journal.append(committed(1))


def test_a_job_goes_on_though_the_savepoint_it_once_began_with_is_gone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")

    run(test)


def is_driven(status: JobStatus) -> bool:
    """Its journal is read: it opens its host, or waits for slots, of which there are none."""
    message = status.message or ""
    return status.state == "SCHEDULING" and ("opening" in message or "slot" in message)


async def waits(dispatcher: Dispatcher, job: str = JOB) -> bool:
    status = await dispatcher.job(job)
    return is_driven(status)


def test_a_job_that_needs_a_savepoint_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=False)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            assert (await dispatcher.job(JOB)).state == "SUSPENDED"

    run(test)


class Away:
    """The storage of the stored job, which cannot be read until it is back: its journal leads to itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = folder / "checkpoints" / JOB / "journal"
        self._journal.rename(folder / "kept")
        self._journal.symlink_to(self._journal)

    def comes_back(self) -> None:
        # at once, or the job would be looked at while it has no journal at all
        (self._folder / "back").symlink_to(self._folder / "kept")
        (self._folder / "back").replace(self._journal)


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Away:
    monkeypatch.setattr(registry_shell, "RETRY_S", 0.01)
    stored(Home(tmp_path), str(tmp_path / "gone"), checkpoints=True)
    return Away(tmp_path)


def test_a_job_whose_storage_is_away_at_the_start_is_tried_again(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            status = await dispatcher.job(JOB)
            assert status.state == "SUSPENDED"
            assert "tried again" in (status.message or "")
            away.comes_back()
            await until(lambda: waits(dispatcher), "a job that waits for slots")

    run(test)


def test_a_job_that_waits_for_its_storage_holds_its_name_and_can_be_canceled(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            with pytest.raises(JobConflict, match=f"{JOB} of that name .* waits to go on"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            with pytest.raises(JobConflict, match="tried again"):
                await dispatcher.savepoint("driven", None)
            trigger = await dispatcher.cancel("driven")
            assert (trigger.status, trigger.job_id) == ("completed", JOB)
            away.comes_back()
            assert (await dispatcher.job(JOB)).state == "CANCELED"
            await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
        async with dispatching(Home(tmp_path)) as dispatcher:
            assert (await dispatcher.job(JOB)).state == "CANCELED"

    run(test)


def test_a_stop_of_a_job_that_waits_for_its_storage_is_kept_for_it(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            trigger = await dispatcher.stop("driven", None, drain=True)
            seen = await dispatcher.trigger(JOB, trigger.trigger_id)
            assert (seen.status, "waits for the job" in (seen.progress or "")) == ("in-progress", True)
            away.comes_back()

            async def asked() -> bool:
                driver = dispatcher._shell.jobs[JOB].driver
                stop = None if driver is None else driver.machine.job.stop
                return stop is not None and (stop.id, stop.drain) == (trigger.trigger_id, True)

            await until(asked, "the job's master to know of the stop")

    run(test)


def test_storage_that_hangs_delays_its_own_jobs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, free, hanging = Home(tmp_path), threading.Event(), [f"{number:012x}" for number in range(1, 21)]
    stored(home, str(tmp_path / "gone"), checkpoints=True)
    for job in hanging:
        stored(home, str(tmp_path / "gone"), checkpoints=True, job=job, name=f"n{job}")

    def slow(submission: JobSubmission, plans: Any) -> Any:
        if submission.job in hanging:
            free.wait()
        return earlier_origin(submission, plans)

    monkeypatch.setattr("headrace.coordinator.registry_shell.earlier_origin", slow)
    monkeypatch.setattr(registry_shell, "START_PATIENCE_S", 0.1)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            try:
                await until(lambda: waits(dispatcher), "the job whose storage answers")
                assert (await dispatcher.job(hanging[0])).message == "it is being resumed"
                job = await dispatcher.submit(SubmitRequest(pipeline=pipeline("new")))
                await until(lambda: waits(dispatcher, job), "a new job")
                assert (await dispatcher.cancel(hanging[1])).status == "completed"
            finally:
                free.set()
            await until(lambda: waits(dispatcher, hanging[0]), "a job whose storage answers again")
            assert (await dispatcher.job(hanging[1])).state == "CANCELED"

    run(test)


def test_until_its_jobs_are_known_a_coordinator_says_that_it_starts(tmp_path: Path) -> None:
    async def test() -> None:
        dispatcher = Dispatcher(Home(tmp_path), "c", Fleet("c", ClusterTimes()), SystemClock(), lambda: None)
        for ask in (dispatcher.jobs(), dispatcher.job(JOB), dispatcher.submit(SubmitRequest(pipeline=pipeline()))):
            with pytest.raises(ExternalError, match="starting") as refused:
                await ask
            assert refused.value.retry
        await dispatcher.start()
        assert await dispatcher.jobs() == ()
        await dispatcher.close()

    run(test)


def test_a_parallelism_that_is_no_number_is_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            for wrong in ("two", None, -1, [1]):
                with pytest.raises(InvalidPipeline) as refused:
                    await dispatcher.submit(SubmitRequest(pipeline=pipeline() | {"parallelism": wrong}))
                assert [problem.path for problem in refused.value.problems] == [("parallelism",)]

    run(test)


def breaking(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """So many masters fail over their first tick."""
    handle, left = Machine.handle, [times]

    def fails(self: Machine, event: on.Event, now_ms: int) -> list[do.Effect]:
        if isinstance(event, on.Tick) and left[0]:
            left[0] -= 1
            raise AssertionError("a broken invariant")
        return handle(self, event, now_ms)

    monkeypatch.setattr(Machine, "handle", fails)
    monkeypatch.setattr(registry_shell, "RETRY_S", 0.01)


def test_another_master_goes_on_with_the_job_of_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch, 2)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            job = await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            other = await dispatcher.submit(SubmitRequest(pipeline=pipeline("other")))

            async def both_wait() -> bool:
                found = [await dispatcher.job(each) for each in (job, other)]
                return all(is_driven(each) for each in found)

            await until(both_wait, "both jobs to wait for slots")
            failures = [*await dispatcher.exceptions(job), *await dispatcher.exceptions(other)]
            assert [each.message for each in failures] == ["AssertionError: a broken invariant"] * 2
            assert all("broken invariant" in (each.trace or "") for each in failures)

    run(test)


def test_a_job_whose_masters_fail_again_and_again_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, registry_shell.BREAKS_MAX)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            job = await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

            async def failed() -> bool:
                return (await dispatcher.job(job)).state == "FAILED"

            await until(failed, "FAILED")
            assert "a broken invariant" in ((await dispatcher.job(job)).failure or "")
            assert len(await dispatcher.exceptions(job)) == registry_shell.BREAKS_MAX
            # its name is free again
            await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

    run(test)


def test_of_two_submissions_of_a_name_at_once_one_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            requests = [dispatcher.submit(SubmitRequest(pipeline=pipeline())) for _ in range(2)]
            answers = await asyncio.gather(*requests, return_exceptions=True)
            assert [type(each) for each in answers if not isinstance(each, str)] == [JobConflict]
            with pytest.raises(JobConflict, match="runs already"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

    run(test)


def test_ended_jobs_beyond_the_last_ones_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_store, "ENDED_MAX", 2)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            jobs = [await canceled(dispatcher, f"job-{number}") for number in range(4)]

            async def forgotten() -> bool:
                return [each.job_id for each in await dispatcher.jobs()] == [jobs[3], jobs[2]]

            await until(forgotten, "two jobs")

    run(test)


def test_a_result_is_on_disk_when_the_coordinator_is_gone(tmp_path: Path) -> None:
    home = Home(tmp_path)

    async def test() -> str:
        async with dispatching(home) as dispatcher:
            return await canceled(dispatcher, "short")

    job = asyncio.run(test())
    ((found,), _) = JobStore(home.jobs).load_all()
    assert found.submission.job == job
    assert found.result is not None
    assert found.result.state == "CANCELED"


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


@pytest.mark.parametrize("driven", [True, False])
def test_a_cancel_is_answered_when_its_end_is_on_disk(
    *, driven: bool, tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "end")
    monkeypatch.setattr(dispatcher_module, "ANSWER_PATIENCE_S", 0.01)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            if driven:
                away.comes_back()
                await until(lambda: waits(dispatcher), "a job that waits for slots")
            trigger = await dispatcher.cancel(JOB)
            await gate.until_reached()
            assert await status_of(dispatcher, trigger) == "in-progress"
            status = await dispatcher.job(JOB)
            assert (status.state, status.message) == ("CANCELLING", "its end is being recorded")
            with pytest.raises(JobConflict, match=f"{JOB} of that name"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            gate.open.set()
            assert (await until_answered(dispatcher, trigger)).status == "completed"
            assert (await dispatcher.job(JOB)).state == "CANCELED"

    run(test)


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_cancel_whose_end_cannot_be_kept_fails_and_the_job_waits_on(
    fails: str, tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "end")
    gate.fails = fails
    gate.open.set()

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            trigger = await until_answered(dispatcher, await dispatcher.cancel(JOB))
            assert trigger.error is not None
            assert trigger.error.message == "no space left"
            away.comes_back()
            await until(lambda: waits(dispatcher), "a job that waits for slots")
        ((found,), _) = JobStore(Home(tmp_path).jobs).load_all()
        assert found.result is None, "it would not go on with the next coordinator"

    run(test)


def test_the_end_of_a_job_that_ran_is_kept_as_soon_as_the_disk_takes_it(
    tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "end")
    gate.fails = "before"
    gate.open.set()
    away.comes_back()

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")
            trigger = await until_answered(dispatcher, await dispatcher.cancel(JOB))
            assert trigger.status == "failed"

            async def ended() -> bool:
                return (await dispatcher.job(JOB)).state == "CANCELED"

            await until(ended, "CANCELED")

    run(test)


def test_a_job_that_was_left_holds_its_name_and_can_be_canceled(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=False)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            with pytest.raises(JobConflict, match=f"{JOB} of that name .* is SUSPENDED: .* could not go on"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            assert (await dispatcher.cancel("driven")).status == "completed"
            await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

    run(test)


def test_a_client_that_hangs_up_leaves_no_job_behind_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "add")

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            asked = asyncio.create_task(dispatcher.submit(SubmitRequest(pipeline=pipeline())))
            await gate.until_reached()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            with pytest.raises(JobConflict, match="being submitted"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            gate.open.set()

            async def is_known() -> bool:
                return [each.name for each in await dispatcher.jobs()] == ["driven"]

            await until(is_known, "the job to be known")

    run(test)


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_submission_whose_write_failed_does_not_run_one_day(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "add")
    gate.fails = fails
    gate.open.set()

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            with pytest.raises(ExternalError, match="no space left"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

            async def is_accepted() -> bool:
                try:
                    await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
                except JobConflict:
                    return False
                return True

            await until(is_accepted, "the name to be free")
        (found, _) = JobStore(Home(tmp_path).jobs).load_all()
        assert len(found) == 1

    run(test)


def test_a_submission_that_arrives_as_the_coordinator_ends_is_the_next_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "add")

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            asked = asyncio.create_task(dispatcher.submit(SubmitRequest(pipeline=pipeline())))
            await gate.until_reached()
            closing = asyncio.create_task(dispatcher.close())
            await asyncio.sleep(0)
            gate.open.set()
            job = await asked
            await closing
            status = await dispatcher.job(job)
            assert (status.state, "the coordinator ends" in (status.message or "")) == ("SUSPENDED", True)
        async with dispatching(Home(tmp_path)) as dispatcher:
            await until(lambda: waits(dispatcher, job), "a job that waits for slots")

    run(test)


def test_submissions_from_storage_that_hangs_delay_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()

    def slow(request: SubmitRequest, *_: Any) -> None:
        if request.from_savepoint is not None:
            free.wait()
            raise ExternalError("it was away")

    monkeypatch.setattr("headrace.coordinator.registry_shell.wished_origin", slow)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            hanging = [
                asyncio.create_task(
                    dispatcher.submit(SubmitRequest(pipeline=pipeline(f"n{number}"), from_savepoint="/hangs"))
                )
                for number in range(2 * registry_shell.THREADS_MAX)
            ]
            try:
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            finally:
                free.set()
            answers = await asyncio.gather(*hanging, return_exceptions=True)
            assert {type(each) for each in answers} == {ExternalError}

    run(test)
