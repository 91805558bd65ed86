"""Submissions at awkward moments: two of a name, clients that hang up, disks that fail. There are no workers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.client.requests import SubmitRequest
from headrace.coordinator.dispatch import registry_shell
from headrace.coordinator.rest.service import JobConflictError
from headrace.coordinator.store.job_store import open_job_store
from headrace.core.errors import ExternalError, InvalidPipelineError
from headrace.core.settings import Home
from support.control.dispatching import (
    Gate,
    dispatching,
    pipeline,
    run,
    until,
    waits,
)


def test_of_two_submissions_of_a_name_at_once_one_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            requests = [dispatcher.submit(SubmitRequest(pipeline=pipeline())) for _ in range(2)]
            answers = await asyncio.gather(*requests, return_exceptions=True)
            assert [type(each) for each in answers if not isinstance(each, str)] == [JobConflictError]
            with pytest.raises(JobConflictError, match="runs already"):
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
            with pytest.raises(JobConflictError, match="being submitted"):
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
                except JobConflictError:
                    return False
                return True

            await until(is_accepted, "the name to be free")
        (found, _) = open_job_store(Home(tmp_path)).load_all()
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

    monkeypatch.setattr("headrace.coordinator.dispatch.registry_shell.wished_origin", slow)

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


def test_a_parallelism_that_is_no_number_is_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with dispatching(Home(tmp_path)) as dispatcher:
            for wrong in ("two", None, -1, [1]):
                with pytest.raises(InvalidPipelineError) as refused:
                    await dispatcher.submit(SubmitRequest(pipeline=pipeline() | {"parallelism": wrong}))
                assert [problem.path for problem in refused.value.problems] == [("parallelism",)]

    run(test)
