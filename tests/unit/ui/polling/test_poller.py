"""The poller against a real REST API: it asks for what pages want, tells them, and outlives a silent coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.core.errors import ExternalError
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.operations import JOBS_MAX, KEPT_OF_JOB, Operations
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want, Wanted
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving
from support.patience import WAIT_SECONDS

PIPELINE = {
    "name": "counting",
    "sources": {"numbers": {"generator": {"rows": 10, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}


async def settled(poller: Poller, is_so: Callable[[], bool]) -> None:
    """Waits for rounds of the poller until it is so."""
    changed = asyncio.Event()
    poller.listeners.add(changed.set)
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so():
            changed.clear()
            poller.refresh()
            await changed.wait()
    poller.listeners.discard(changed.set)


def polled(cluster: ScriptedCluster, story: Callable[[Poller], Awaitable[None]]) -> None:
    """Runs a coroutine function beside a poller of the cluster."""
    with serving(cluster) as url:

        async def run() -> None:
            poller = Poller(ClusterAccess(lambda: Client(url, TOKEN)))
            poller.start()
            try:
                await story(poller)
            finally:
                await poller.close()

        asyncio.run(run())


def test_figures_always_and_documents_while_a_page_wants_them() -> None:
    cluster = ScriptedCluster()
    job = asyncio.run(cluster.submit(SubmitRequest(pipeline=PIPELINE)))

    async def story(poller: Poller) -> None:
        await settled(poller, lambda: bool(poller.figures))
        assert poller.samples.of(job).rates()["in"][-1][1] == 100.0
        assert poller.status(job, "numbers") is None
        wants = [Want(Topic.STATUS, job, "numbers"), Want(Topic.CHECKPOINTS, job), Want(Topic.EXCEPTIONS, job)]
        for want in (*wants, Want(Topic.CLUSTER)):
            poller.want(want)
        await settled(poller, lambda: poller.cluster() is not None)
        status = poller.status(job, "numbers")
        assert status is not None
        assert len(status.nodes[0].subtasks) == 1
        assert poller.status(job, None) is None
        assert [each.epoch for each in poller.checkpoints(job) or ()] == [4, 3]
        assert [each.place for each in poller.exceptions(job) or ()] == ["t/0/7"]
        for want in wants:
            poller.drop(want)
        assert poller.checkpoints(job) is None

    polled(cluster, story)


def test_a_job_that_is_not_known_is_an_error_of_its_page_alone() -> None:
    async def story(poller: Poller) -> None:
        unknown = Want(Topic.STATUS, "nothing")
        poller.want(unknown)
        poller.want(Want(Topic.CLUSTER))
        await settled(poller, lambda: poller.cluster() is not None)
        error = poller.error(unknown)
        assert error is not None
        assert "nothing" in error.message
        assert poller.trouble is None

    polled(ScriptedCluster(), story)


def test_a_coordinator_that_does_not_answer_leaves_the_last_documents_with_their_age() -> None:
    cluster = ScriptedCluster()

    async def story(poller: Poller) -> None:
        await settled(poller, lambda: poller.age_s is not None)
        cluster.refuse = ExternalError("the storage is away")
        await settled(poller, lambda: poller.trouble is not None)
        assert "the storage is away" in (poller.trouble or "")
        assert poller.age_s is not None
        await settled(poller, lambda: poller.trouble is None)

    polled(cluster, story)


def test_an_operation_tells_how_it_stands_and_why_it_failed() -> None:
    cluster = ScriptedCluster()
    job = asyncio.run(cluster.submit(SubmitRequest(pipeline=PIPELINE)))

    async def story(poller: Poller) -> None:
        operations = Operations(poller.access, poller.refresh)
        done = await operations.run(
            job, "Rescale", lambda client, show: client.wait_trigger(client.rescale(job, 2)).kind
        )
        assert (done.text, done.failed) == ("rescale", False)
        cluster.failing = ExternalError("no slots")
        failed = await operations.run(job, "Cancel", lambda client, show: client.wait_trigger(client.cancel(job)).kind)
        assert (failed.text, failed.failed) == ("no slots", True)
        assert [each.name for each in operations.of(job)] == ["Cancel", "Rescale"]
        for number in range(JOBS_MAX + KEPT_OF_JOB):
            await operations.run(f"job-{number}", "Nothing", lambda client, show: "done")
        assert operations.of(job) == ()

    polled(cluster, story)


def test_a_document_is_wanted_as_long_as_one_page_wants_it() -> None:
    wanted, want = Wanted(), Want(Topic.STATUS, "a")
    wanted.add(want)
    wanted.add(want)
    wanted.drop(want)
    assert want in wanted
    assert wanted.all() == [want]
    wanted.drop(want)
    assert len(wanted) == 0
