"""A job's driver at awkward moments: requests that come with the end, hosts and slots that outlive who asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.manifest import CommittableDocument
from headrace.checkpoint.stores.opening import open_store
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.leaving import Leaving
from headrace.core.errors import ExternalError
from headrace.rpc.codec import from_slot_bytes
from headrace.rpc.deployment import Deployment
from headrace.rpc.messages import Acked, Failed, Failure
from support.clusters.worker_process import all_pids, parent_of
from support.control.driven_job import JOB, SLOT, PromptHost, driven, run
from support.storage.checkpoints import attempt, checkpoint, committed

pytestmark = pytest.mark.turns(2)


def lost(attempt: int) -> Failed:
    return Failed(JOB, attempt, Failure("lost", "external", retry=True))


def hosts() -> list[int]:
    """Connector hosts of the job, among the processes that this one started: other tests have such jobs as well."""
    found = []
    for pid in all_pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"headrace-connector-host" in command and JOB.encode() in command and parent_of(pid) == os.getpid():
                found.append(pid)
        except OSError:
            continue
    return found


def test_requests_that_come_with_the_end_are_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            await made.until(lambda: made.driver.machine.state is JobState.SCHEDULING, "SCHEDULING")
            for event in (on.CancelAsked("cancel"), on.Suspend("gone"), on.SavepointAsked("savepoint", "/s")):
                made.driver.post(event)
            await made.driver.closed()
            made.driver.post(on.RescaleAsked("rescale", 2))
            assert sorted(made.answers) == ["cancel", "rescale", "savepoint"]
            assert all(failure is not None for failure in made.answers.values())

    run(test)


def test_no_connector_host_outlives_a_job_that_ends_while_it_starts(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            await made.until(lambda: bool(made.driver._host._openings), "the host to be wanted")
            made.driver.post(on.Suspend("gone"))
            await made.driver.closed()
            assert hosts() == []

    run(test)


def test_an_opening_that_was_overtaken_leaves_one_host(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            await made.until(lambda: "opening" in made.driver.machine.job.message, "the host to be wanted")
            made.driver._perform(do.OpenHost({}))
            made.driver._perform(do.OpenHost({}))
            await made.until(lambda: made.driver._host._opened is not None, "a host")
            await made.until(lambda: not made.driver._host._opening.locked(), "the others")
            assert len(hosts()) == 1
        assert hosts() == []

    run(test)


def test_slots_count_as_released_only_when_those_of_earlier_attempts_are_gone_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            await made.until(lambda: made.driver.machine.state is JobState.SCHEDULING, "SCHEDULING")
            held = made.driver.attempt_slots
            held.slots, held.granted_for, held.deployed = (SLOT,), 1, True
            made.driver._perform(do.ReleaseSlots())
            made.driver.post(on.CancelAsked("cancel"))
            await made.until(lambda: made.driver.machine.state is JobState.CANCELLING, "CANCELLING")
            leaving = made.driver.machine._state
            assert isinstance(leaving, Leaving)
            await made.until(lambda: leaving._read, "the journal's answer")
            # nothing is left to release, but for what is being released
            assert not leaving._released and not leaving._tickets
            made.fleet.left.set()
            await made.driver.closed()
            assert made.driver.machine.state is JobState.CANCELED
            assert made.fleet.retired == [1]

    run(test)


def test_a_checkpoint_that_is_altered_is_found_once_a_slot_could_not_restore_it(tmp_path: Path) -> None:
    """Its size is right, so the look before a deployment finds nothing."""
    store = open_store(str(tmp_path / "checkpoints"))
    journal = JournalStore(store, "", "earlier")
    journal.append(attempt(1))
    for epoch, data in ((1, b"data"), (2, b"dat!")):
        path = f"state/1-{epoch}-numbers-0-{epoch:016x}.parquet"
        store.write(path, data)
        journal.append(checkpoint(epoch, files=[path], node="numbers"))
        journal.append(committed(epoch))

    def restored_from(deployment: Deployment) -> set[str]:
        return {Path(part.path).name[:3] for handle in deployment.restore for part in handle.files}

    async def test() -> None:
        async with driven(tmp_path) as made:
            made.fleet.holder = made.driver.attempt_slots
            made.fleet.left.set()
            await made.until(lambda: len(made.fleet.deployed) == 1, "an attempt")
            failure = Failure("damaged", "external", retry=False)
            made.driver.attempt_slots.slot_message(SLOT.slot, from_slot_bytes(Failed(JOB, 2, failure)))
            await made.until(lambda: len(made.fleet.deployed) == 2, "another attempt")
            assert [restored_from(each) for each in made.fleet.deployed] == [{"1-2"}, {"1-1"}]

    run(test)


def test_a_coordinator_that_another_one_has_replaced_does_not_wait_for_slots(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            made.fleet.holder = made.driver.attempt_slots
            made.fleet.left.set()
            await made.until(lambda: len(made.fleet.deployed) == 1, "an attempt")
            made.fleet.holder = None
            other = JournalStore(open_store(str(tmp_path / "checkpoints")), "", "another")
            other.load()
            other.append(attempt(2))
            made.driver.attempt_slots.slot_message(SLOT.slot, from_slot_bytes(lost(1)))
            await made.until(lambda: made.driver.machine.state is JobState.SUSPENDED, "SUSPENDED")

    run(test)


def test_a_slot_whose_reports_cannot_be_read_has_failed(tmp_path: Path) -> None:
    """It is of another version: whoever brings its words must not fail over them."""

    async def test() -> None:
        async with driven(tmp_path) as made:
            made.fleet.holder = made.driver.attempt_slots
            made.fleet.left.set()
            await made.until(lambda: len(made.fleet.deployed) == 1, "an attempt")
            unread = Acked(JOB, 1, 1, b'[{"unknown": 1}]', 1, 0, b"")
            made.driver.attempt_slots.slot_message(SLOT.slot, from_slot_bytes(unread))
            await made.until(lambda: len(made.fleet.deployed) == 2, "another attempt")
            (failed,) = made.driver.history.exceptions
            assert "its report cannot be read" in failed.failure.message

    run(test)


def test_a_job_whose_journal_is_gone_does_not_begin_anew(tmp_path: Path) -> None:
    history = JobHistory().started(1, 1, 1)

    async def test() -> None:
        async with driven(tmp_path, history) as made:
            await made.until(lambda: "is gone" in made.driver.message, "it says what it waits for")
            assert made.driver.machine.state is JobState.SCHEDULING
            store = open_store(str(tmp_path / "checkpoints"))
            for draft in (attempt(1), checkpoint(1), committed(1)):
                writer = JournalStore(store, "", "w0")
                writer.load()
                writer.append(draft)
            await made.until(lambda: made.driver.checkpoint is not None, "it finds its checkpoint again")

    run(test)


@pytest.mark.parametrize(
    ("payload", "message"), [(b"\x7a\x00", "of a kind that this version does not know"), (b"\xff", "is malformed")]
)
def test_a_slot_whose_messages_are_not_known_has_failed(tmp_path: Path, payload: bytes, message: str) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            made.fleet.holder = made.driver.attempt_slots
            made.fleet.left.set()
            await made.until(lambda: len(made.fleet.deployed) == 1, "an attempt")
            made.driver.attempt_slots.slot_message(SLOT.slot, payload)
            await made.until(lambda: len(made.fleet.deployed) == 2, "another attempt")
            (failed,) = made.driver.history.exceptions
            assert message in failed.failure.message
            assert failed.failure.worker == SLOT.worker

    run(test)


def test_messages_of_an_older_attempt_and_of_unknown_slots_are_dropped(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            made.fleet.holder = made.driver.attempt_slots
            made.fleet.left.set()
            await made.until(lambda: len(made.fleet.deployed) == 1, "an attempt")
            slots = made.driver.attempt_slots
            slots.slot_message(SLOT.slot, from_slot_bytes(lost(1)))
            await made.until(lambda: len(made.fleet.deployed) == 2, "another attempt")
            slots.slot_message(SLOT.slot, from_slot_bytes(lost(1)))
            slots.slot_message("another", from_slot_bytes(lost(2)))
            assert made.driver._events.empty()
            slots.slot_message(SLOT.slot, from_slot_bytes(lost(2)))
            assert not made.driver._events.empty()

    run(test)


class AwayHost(PromptHost):
    """Its commits fail once `back` is set."""

    def __init__(self, driver: JobDriver) -> None:
        super().__init__(driver, set())
        self.back = asyncio.Event()
        self.retries: list[bool] = []

    async def commit(
        self, epoch: int, committables: object, retries: Callable[[], bool]
    ) -> tuple[CommittableDocument, ...]:
        await self.back.wait()
        self.retries.append(retries())
        raise ExternalError("the broker is away", retry=True)


@pytest.mark.parametrize("replaced", [False, True])
def test_only_the_newest_request_to_committers_is_retried_and_fails(
    replaced: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            await made.until(lambda: made.driver.machine.state is JobState.SCHEDULING, "SCHEDULING")
            host = AwayHost(made.driver)
            made.driver._host = host  # type: ignore[assignment]
            posted: list[on.Event] = []
            with monkeypatch.context() as patch:
                patch.setattr(made.driver, "post", posted.append)
                made.driver._perform(do.Commit(1, ()))
                await asyncio.sleep(0)
                if replaced:
                    made.driver._perform(do.Fence(2, {}))
                    await made.until(lambda: on.Fenced(2) in posted, "the fence")
                host.back.set()
                await made.until(lambda: not made.driver._tasks, "the end of the commit")
            assert host.retries == [not replaced]
            assert any(isinstance(each, on.CommitFailed) for each in posted) is not replaced

    run(test)
