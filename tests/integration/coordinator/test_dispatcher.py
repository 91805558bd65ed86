"""The dispatcher over restarts and at awkward moments. There are no workers: its jobs wait for slots."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import PutResult
from headrace.checkpoint.journal.records import FinishedRecord, Record
from headrace.checkpoint.stores.opening import open_store
from headrace.client.requests import SubmitRequest
from headrace.coordinator.dispatch import dispatcher as dispatcher_module
from headrace.coordinator.dispatch import registry_shell
from headrace.coordinator.dispatch.dispatcher import Dispatcher
from headrace.coordinator.dispatch.preparation import earlier_origin
from headrace.coordinator.driver import storage_queue
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.machine import Machine
from headrace.coordinator.rest.service import JobConflictError
from headrace.coordinator.store import job_store
from headrace.coordinator.store.job_store import open_job_store
from headrace.coordinator.store.ledger_store import LedgerReplacedError, LedgerStore
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.errors import ExternalError
from headrace.core.settings import Home
from headrace.rpc.time_settings import ClusterTimes
from support.control.dispatching import (
    JOB,
    Gate,
    canceled,
    dispatcher_of,
    dispatching,
    is_driven,
    pipeline,
    run,
    status_of,
    stored,
    until,
    until_answered,
    waits,
)
from support.patience import WAIT_SECONDS
from support.storage.checkpoints import checkpoint

pytestmark = pytest.mark.turns(3)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start waits for the first try of each job, and a cancel for the disk, however slow the machine is."""
    monkeypatch.setattr(registry_shell, "START_PATIENCE_S", WAIT_SECONDS)
    monkeypatch.setattr(dispatcher_module, "ANSWER_PATIENCE_S", WAIT_SECONDS)


def test_a_job_goes_on_though_the_savepoint_it_once_began_with_is_gone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")

    run(test)


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


async def is_tried_again(dispatcher: Dispatcher) -> bool:
    """A start waits for the first try, but not for long."""
    status = await dispatcher.job(JOB)
    return status.state == "SUSPENDED" and "tried again" in (status.message or "")


def test_a_job_whose_storage_is_away_at_the_start_is_tried_again(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            await until(lambda: is_tried_again(dispatcher), "a first try that came to nothing")
            away.comes_back()
            await until(lambda: waits(dispatcher), "a job that waits for slots")

    run(test)


def test_a_job_that_waits_for_its_storage_holds_its_name_and_can_be_canceled(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            with pytest.raises(JobConflictError, match=f"{JOB} of that name .* waits to go on"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            await until(lambda: is_tried_again(dispatcher), "a first try that came to nothing")
            with pytest.raises(JobConflictError, match="tried again"):
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


def test_a_stop_of_a_job_that_waits_for_its_storage_ends_it_when_its_time_is_over(tmp_path: Path, away: Away) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            await until(lambda: is_tried_again(dispatcher), "a first try that came to nothing")
            trigger = await dispatcher.stop("driven", None, drain=False, within_ms=1_000)
            stopped = await until_answered(dispatcher, trigger)
            assert stopped.status == "completed"
            assert "ended without a last checkpoint" in (stopped.progress or "")
            assert "--take-over" in (stopped.progress or "")
            away.comes_back()
        async with dispatching(Home(tmp_path)) as dispatcher:
            assert (await dispatcher.job(JOB)).state == "CANCELED"

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

    monkeypatch.setattr("headrace.coordinator.dispatch.registry_shell.earlier_origin", slow)
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


def test_a_job_whose_journal_hangs_can_be_canceled_and_its_coordinator_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, append = threading.Event(), JournalStore.append

    def hanging(self: JournalStore, draft: Record) -> PutResult:
        if isinstance(draft, FinishedRecord):
            free.wait()
        return append(self, draft)

    monkeypatch.setattr(JournalStore, "append", hanging)
    monkeypatch.setattr(storage_queue, "ANSWER_S", 0.1)
    stored(Home(tmp_path), str(tmp_path / "gone"), checkpoints=True)

    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")
            trigger = await until_answered(dispatcher, await dispatcher.cancel("driven"))
            assert (trigger.status, (await dispatcher.job(JOB)).state) == ("completed", "CANCELED")
        free.set()

    run(test)


def test_until_its_jobs_are_known_a_coordinator_says_that_it_starts(tmp_path: Path) -> None:
    async def test() -> None:
        dispatcher = dispatcher_of(Home(tmp_path), Fleet("c", ClusterTimes()))
        for ask in (dispatcher.jobs(), dispatcher.job(JOB), dispatcher.submit(SubmitRequest(pipeline=pipeline()))):
            with pytest.raises(ExternalError, match="starting") as refused:
                await ask
            assert refused.value.retry
        await dispatcher.start()
        assert await dispatcher.jobs() == ()
        await dispatcher.close()

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


def test_a_coordinator_that_was_replaced_accepts_nothing_and_ends(tmp_path: Path) -> None:
    home, replaced = Home(tmp_path), asyncio.Event()

    async def test() -> None:
        async with dispatching(home, lambda _event: replaced.set()) as first:
            job = await first.submit(SubmitRequest(pipeline=pipeline()))
            async with dispatching(home) as second:
                with pytest.raises(LedgerReplacedError):
                    await first.submit(SubmitRequest(pipeline=pipeline("another")))
                await asyncio.wait_for(replaced.wait(), WAIT_SECONDS)
                assert [each.job_id for each in await second.jobs()] == [job]
                other = await second.submit(SubmitRequest(pipeline=pipeline("another")))
                assert {each.job_id for each in await second.jobs()} == {job, other}

    run(test)


def test_a_coordinator_notices_that_it_was_replaced_though_it_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_store, "WATCH_S", 0.01)
    home, replaced, checks = Home(tmp_path), asyncio.Event(), []
    require_own = LedgerStore.require_own

    def counted(store: LedgerStore) -> None:
        checks.append(store)
        require_own(store)

    monkeypatch.setattr(LedgerStore, "require_own", counted)

    async def checked() -> bool:
        return len(checks) > 2

    async def test() -> None:
        async with dispatching(home, lambda _event: replaced.set()):
            await until(checked, "three checks")
            assert not replaced.is_set()
            async with dispatching(home):
                await asyncio.wait_for(replaced.wait(), WAIT_SECONDS)

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
    ((found,), _) = open_job_store(home).load_all()
    assert found.submission.job == job
    assert found.result is not None
    assert found.result.state == "CANCELED"


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
            with pytest.raises(JobConflictError, match=f"{JOB} of that name"):
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
        ((found,), _) = open_job_store(Home(tmp_path)).load_all()
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
            with pytest.raises(JobConflictError, match=f"{JOB} of that name .* is SUSPENDED: .* could not go on"):
                await dispatcher.submit(SubmitRequest(pipeline=pipeline()))
            assert (await dispatcher.cancel("driven")).status == "completed"
            await dispatcher.submit(SubmitRequest(pipeline=pipeline()))

    run(test)


@pytest.mark.parametrize(
    ("writer", "goes_on"),
    [("term-0-0123456789abcdef", True), ("term-999-0123456789abcdef", False), ("0123456789abcdef", False)],
    ids=["earlier term", "later term", "another program"],
)
def test_a_job_whose_journal_was_continued_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, *, goes_on: bool
) -> None:
    """A leader that was deposed writes once more, between the read and the first record of this one."""
    home = Home(tmp_path)
    stored(home, str(tmp_path / "gone"), checkpoints=True)
    original, folder = JournalStore.append, str(home.checkpoints / JOB)
    meanwhile = [writer]

    def append(store: JournalStore, draft: Record) -> PutResult:
        while meanwhile:
            other = JournalStore(open_store(folder), "", meanwhile.pop())
            other.load()
            other.append(checkpoint(2))
        return original(store, draft)

    monkeypatch.setattr(JournalStore, "append", append)

    async def test() -> None:
        async with dispatching(home) as dispatcher:
            await until(lambda: waits(dispatcher), "a job that waits for slots")
            cancel = await until_answered(dispatcher, await dispatcher.cancel(JOB))
            assert cancel.status == "failed"
            if goes_on:
                await until(lambda: waits(dispatcher), "it waits for slots again")
                assert (await until_answered(dispatcher, await dispatcher.cancel(JOB))).status == "completed"
            else:
                assert (await dispatcher.job(JOB)).state == "SUSPENDED"

    run(test)
