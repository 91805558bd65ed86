"""A worker's processes against a control server: slots come up, are replaced, and none outlives its supervisor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, SplitDocument
from headrace.core.errors import InternalError, UnreachableError, UserError
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.explain import plan_dict
from headrace.rpc import codec
from headrace.rpc.client import ControlClient
from headrace.rpc.deployment import ASSIGNED_SPLITS, AssignedSplitDocument, Deployment, PeerDocument
from headrace.rpc.messages import (
    Acked,
    AssignSplits,
    CancelSlot,
    Deploy,
    Deployed,
    Failed,
    FinishSlot,
    InputEnded,
    KillSlot,
    Left,
    ReplaceSecret,
    SlotCommand,
    SlotDown,
    SlotInfo,
    SlotMessage,
    StopWorker,
    ToSlot,
    TriggerEpoch,
    WorkerDraining,
    WorkerLeaving,
)
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.supervision import slot_process
from headrace.worker.supervision.slot_process import SlotProcess
from headrace.worker.supervision.supervisor import Supervisor, WorkerConfig
from support.clusters.worker_process import WorkerProcess, is_running, worker_process
from support.control.server import TOKEN, ServerInThread
from support.patience import CONTROL_TIMES, SHORT_CONTROL_LEASES, WAIT_SECONDS
from support.processes.running import wait_until
from support.processes.starters import shared_starter
from support.reserved_port import reserved_port

pytestmark = pytest.mark.turns(3)

PIPELINE = {
    "name": "numbers",
    "sources": {
        "numbers": {
            "generator": {"rows": 100, "columns": {"id": {"sequence": {"start": 1}}}},
            "schema": {"id": "int64 not null"},
        }
    },
    "sinks": {"shown": {"from": "numbers", "print": {}, "format": "json"}},
}


@pytest.fixture(autouse=True)
def last_words_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that brings a slot's last words may be held up for longer than a worker waits for it."""
    monkeypatch.setattr(slot_process, "_READER_SECONDS", WAIT_SECONDS)


def config(server: ServerInThread, folder: Path, *, slots: int = 1) -> WorkerConfig:
    given = WorkerConfig("w1", server.address, slots, "127.0.0.1", folder / "w1", TOKEN, server.times)
    return replace(given, starter=shared_starter())


@contextmanager
def supervised(given: WorkerConfig) -> Iterator[Supervisor]:
    supervisor = Supervisor(given)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


def slots_up(server: ServerInThread, count: int = 1, other_than: SlotInfo | None = None) -> list[SlotInfo]:
    up: list[SlotInfo] = []

    def are_up() -> bool:
        # one look: the next one may find others
        up[:] = [info for info in server.slots().values() if other_than is None or info.slot != other_than.slot]
        return len(up) == count

    wait_until(are_up, f"{count} slots are up")
    return up


def signal_to(pid: int, number: signal.Signals) -> None:
    """A slot that this host held up for a lease has ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def tell(server: ServerInThread, slot: SlotInfo, command: ToSlot) -> None:
    server.send("w1", codec.slot_command(slot.slot, command))


def deploy(server: ServerInThread, slot: SlotInfo, folder: Path, *, plan_hash: str | None = None) -> None:
    pipeline = pipeline_from_dict(PIPELINE)
    address = slot.address
    deployment = Deployment(
        pipeline=pipeline.to_dict(),
        plan_hash=plan_hash or str(plan_dict(compile_pipeline(pipeline).physical)["hash"]),
        slot=0,
        slots=1,
        peers=(PeerDocument(index=0, host=address.host, port=address.port, unix_path=address.unix_path),),
        storage=str(folder / "storage"),
    )
    tell(server, slot, Deploy("job", 1, "secret", deployment.model_dump_json().encode()))


def deployed(server: ServerInThread, folder: Path) -> SlotInfo:
    """A slot that runs an attempt. Where leases are short, this host may hold one up for longer: then the next one."""
    tried: list[SlotInfo] = []
    told = [0]

    def runs() -> bool:
        joined = server.connected()
        if tried and len(joined) > told[0] and tried[-1] in joined[-1].register.idle:
            # what it was told got lost with its worker's connection
            tried.pop()
        for info in server.slots().values():
            if info not in tried and all(each.slot not in server.slots() for each in tried):
                tried.append(info)
                told[0] = len(joined)
                deploy(server, info, folder)
        return bool(tried) and tried[-1].slot in server.slots() and bool(said_by(server, tried[-1], Deployed))

    wait_until(runs, "a slot is deployed")
    return tried[-1]


def said_by(server: ServerInThread, slot: SlotInfo, kind: type) -> list[object]:
    said = [message for message in server.said() if isinstance(message, SlotMessage) and message.slot == slot.slot]
    words = [codec.from_slot(message.payload) for message in said]
    return [word for word in words if isinstance(word, kind)]


def wait_said(server: ServerInThread, slot: SlotInfo, kind: type) -> object:
    wait_until(lambda: bool(said_by(server, slot, kind)), f"the slot says {kind.__name__}")
    return said_by(server, slot, kind)[0]


def wait_down(server: ServerInThread, slot: SlotInfo) -> SlotDown:
    def downs() -> list[SlotDown]:
        return [each for each in server.said() if isinstance(each, SlotDown) and each.slot == slot.slot]

    wait_until(lambda: bool(downs()), "the slot is down")
    return downs()[0]


def test_slots_come_up_and_a_killed_one_is_replaced(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path, slots=2)):
        first, other = slots_up(server, 2)
        assert {Path(each.address.unix_path).exists() for each in (first, other)} == {True}
        os.kill(first.pid, signal.SIGKILL)
        down = wait_down(server, first)
        assert "killed by signal 9 (SIGKILL" in down.reason
        assert not down.clean
        assert other in slots_up(server, 2)


def test_a_slot_that_is_dead_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerInThread() as server, supervised(config(server, tmp_path)) as supervisor:
        (slot,) = slots_up(server)
        # as when the supervisor wakes: it joins anew before it looks after its slots
        looked = threading.Event()
        monkeypatch.setattr(supervisor, "_check_slots", looked.set)
        # a look that had begun before would bury the slot, and start another one
        assert looked.wait(WAIT_SECONDS)
        os.kill(slot.pid, signal.SIGKILL)
        # a process with threads that still end is no longer running, but not yet dead
        wait_until(lambda: not supervisor._registration().idle, "the slot is not offered")
        assert not supervisor._registration().busy


def test_a_worker_that_meets_what_nobody_foresaw_ends_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: SlotProcess) -> tuple[str, bool]:
        raise ValueError("unforeseen")

    with ServerInThread() as server:
        supervisor = Supervisor(config(server, tmp_path, slots=2))
        supervisor.start()
        pids = [slot.pid for slot in slots_up(server, 2)]
        monkeypatch.setattr(SlotProcess, "end", fails)
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(InternalError, match="unforeseen"):
            supervisor.wait(WAIT_SECONDS)
        wait_until(lambda: not any(is_running(pid) for pid in pids), "no slot is left")


def test_an_attempt_from_deployment_to_its_end(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path)
        wait_said(server, slot, Deployed)
        split = AssignedSplitDocument(split=SplitDocument(topic="", partition=0, start=0, stop=100))
        tell(server, slot, AssignSplits("numbers", ASSIGNED_SPLITS.dump_json((split,)), final=True))
        wait_said(server, slot, InputEnded)
        tell(server, slot, TriggerEpoch(1, "", stop=False, drain=False))
        acked = wait_said(server, slot, Acked)
        assert isinstance(acked, Acked)
        assert {each.task for each in SUBTASK_DOCUMENTS.validate_json(acked.subtasks)}
        tell(server, slot, FinishSlot())
        wait_said(server, slot, Left)
        assert wait_down(server, slot) == SlotDown(slot.slot, "left", clean=True, domain="external")
        slots_up(server, other_than=slot)
        printed = (tmp_path / "w1" / "logs" / f"{slot.slot}.log").read_text()
        assert printed.count('"id":') == 100
        assert list((tmp_path / "w1" / "scratch").glob(f"{slot.slot}*")) == []


def test_a_slot_leaves_when_it_is_told_to(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path)
        wait_said(server, slot, Deployed)
        tell(server, slot, CancelSlot())
        assert wait_down(server, slot).clean


def test_a_slot_that_cannot_run_its_attempt_says_why_and_is_replaced(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path, plan_hash="another")
        failed = wait_said(server, slot, Failed)
        assert isinstance(failed, Failed)
        assert "plans numbers differently" in failed.failure.message
        assert "its attempt failed" in wait_down(server, slot).reason
        slots_up(server, other_than=slot)


def test_a_slot_that_gets_a_message_of_another_version_fails_its_attempt_and_says_so(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path)
        wait_said(server, slot, Deployed)
        server.send("w1", SlotCommand(slot.slot, b"\x7a\x00", deploys=False, leaves=False))
        failed = wait_said(server, slot, Failed)
        assert isinstance(failed, Failed)
        assert "of a kind that this version does not know" in failed.failure.message
        assert failed.failure.retry
        slots_up(server, other_than=slot)


def test_a_slot_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    with ServerInThread(replace(CONTROL_TIMES, cancel=500)) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path)
        wait_said(server, slot, Deployed)
        os.kill(slot.pid, signal.SIGSTOP)
        tell(server, slot, CancelSlot())
        assert "had not left 0.5 s after it was told to" in wait_down(server, slot).reason


def test_a_slot_is_killed_on_the_coordinator_s_word(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        server.send("w1", KillSlot(slot.slot))
        assert wait_down(server, slot).reason == "killed on the coordinator's word"


def test_a_slot_that_stands_still_is_killed(tmp_path: Path) -> None:
    with ServerInThread(SHORT_CONTROL_LEASES) as server, supervised(config(server, tmp_path)):
        stopped: dict[str, int] = {}

        def killed() -> list[str]:
            downs = [each for each in server.said() if isinstance(each, SlotDown) and "killed: no beat" in each.reason]
            return [each.slot for each in downs if each.slot in stopped]

        def is_killed() -> bool:
            if killed():
                return True
            # this host may hold up one for so long that it ends by itself: then another one stands still
            for slot in server.slots().values():
                stopped[slot.slot] = slot.pid
                signal_to(slot.pid, signal.SIGSTOP)
            return False

        wait_until(is_killed, "it is killed")
        assert not is_running(stopped[killed()[0]])


def test_a_slot_above_its_memory_limit_is_killed(tmp_path: Path) -> None:
    with (
        ServerInThread(CONTROL_TIMES) as server,
        supervised(replace(config(server, tmp_path), memory_limit_bytes=64 << 20)),
    ):
        wait_until(lambda: any("more than its limit" in str(each) for each in server.said()), "its limit is told")


@contextmanager
def foreground(server: ServerInThread, folder: Path, *, slots: int = 1) -> Iterator[WorkerProcess]:
    with worker_process(server.address, folder, server.times, slots=slots) as worker:
        yield worker


def test_slots_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, foreground(server, tmp_path, slots=2) as worker:
        slots = slots_up(server, 2)
        os.kill(slots[0].pid, signal.SIGSTOP)  # even one that stands still
        assert {slot.pid for slot in slots} <= worker.children()
        worker.process.kill()
        worker.process.wait()
        wait_until(lambda: not any(is_running(slot.pid) for slot in slots), "no slot is left")


def test_slots_of_a_frozen_supervisor_exit_by_themselves_and_it_starts_anew_when_it_wakes(tmp_path: Path) -> None:
    with ServerInThread(SHORT_CONTROL_LEASES) as server, foreground(server, tmp_path) as worker:
        slot = deployed(server, tmp_path)
        os.kill(worker.pid, signal.SIGSTOP)
        wait_until(lambda: not is_running(slot.pid), "the slot has exited")
        wait_until(lambda: len(server.lost()) == len(server.connected()), "the worker is lost")
        before = len(server.connected())
        os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: len(server.connected()) > before, "it registers anew")
        slots_up(server, other_than=slot)


def test_a_slot_that_wakes_after_its_lease_exits(tmp_path: Path) -> None:
    """Its supervisor stands still as well, so that nobody kills it."""
    with ServerInThread(SHORT_CONTROL_LEASES) as server, foreground(server, tmp_path) as worker:
        (slot,) = slots_up(server)
        signal_to(slot.pid, signal.SIGSTOP)
        os.kill(worker.pid, signal.SIGSTOP)
        wait_until(lambda: len(server.lost()) == len(server.connected()), "the lease is long over")
        signal_to(slot.pid, signal.SIGCONT)
        wait_until(lambda: not is_running(slot.pid), "the slot has exited")
        os.kill(worker.pid, signal.SIGCONT)


def test_a_worker_goes_at_sigterm_and_leaves_nothing(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, foreground(server, tmp_path, slots=2) as worker:
        slots = slots_up(server, 2)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(WAIT_SECONDS) == 0
        assert not any(is_running(slot.pid) for slot in slots)
        wait_until(lambda: bool(server.lost()), "it is gone")
        assert server.said()[-1] == WorkerLeaving()
        assert server.lost()[0].clean
        assert [path.name for path in (tmp_path / "tmp").iterdir()] == []
        assert sorted(path.name for path in worker.folder.iterdir()) == ["lock", "logs"]


def test_a_worker_that_is_drained_goes_when_its_attempt_has_left(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, drained(server, tmp_path, drain_ms=600_000) as worker:
        slot = deployed(server, tmp_path)
        worker.drain()
        worker.drain()
        wait_until(lambda: WorkerDraining() in server.said(), "the coordinator knows")
        assert server.said().count(WorkerDraining()) == 1
        # it is kept as long as its attempt runs
        assert is_running(slot.pid) and not worker.wait(0)
        tell(server, slot, CancelSlot())
        assert worker.wait(WAIT_SECONDS)
        assert list(server.slots()) == [], "no other slot has been started"


def test_a_worker_that_is_drained_says_so_to_the_next_coordinator(tmp_path: Path) -> None:
    with reserved_port() as port:
        with ServerInThread(CONTROL_TIMES, port) as server:
            given = replace(config(server, tmp_path), drain_ms=600_000)
            worker = Supervisor(given)
            worker.start()
            deployed(server, tmp_path)
            worker.drain()
            wait_until(lambda: WorkerDraining() in server.said(), "the first one knows")
        with ServerInThread(CONTROL_TIMES, port) as successor:
            wait_until(lambda: bool(successor.connected()), "it registers there")
            assert successor.connected()[0].register.draining
            worker.stop()


def test_a_worker_that_cannot_be_drained_in_time_ends_all_the_same(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, drained(server, tmp_path, drain_ms=1) as worker:
        deployed(server, tmp_path)
        worker.drain()
        assert worker.wait(WAIT_SECONDS)
        wait_until(lambda: bool(server.lost()), "it is gone")
        assert server.lost()[0].clean


@contextmanager
def drained(server: ServerInThread, folder: Path, *, drain_ms: int) -> Iterator[Supervisor]:
    with supervised(replace(config(server, folder), drain_ms=drain_ms)) as worker:
        yield worker


def test_a_worker_ends_on_the_coordinator_s_word(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, foreground(server, tmp_path) as worker:
        slots_up(server)
        server.send("w1", StopWorker())
        assert worker.process.wait(WAIT_SECONDS) == 0


def test_a_worker_replaces_a_secret_and_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    with ServerInThread(CONTROL_TIMES) as server, supervised(replace(config(server, tmp_path), secrets=folder)):
        slots_up(server)
        for name in ("../outside", "/outside", "tokens"):
            server.send("w1", ReplaceSecret(name, b"new"))
        wait_until((folder / "tokens").exists, "the secret is there")
    assert (folder / "tokens").read_bytes() == b"new"
    assert (folder / "tokens").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["tokens"]
    assert not (tmp_path / "outside").exists()


def test_without_a_coordinator_attempts_end_idle_slots_stay_and_the_next_one_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        reserved_port() as port,
        ServerInThread(CONTROL_TIMES, port) as server,
        supervised(config(server, tmp_path, slots=2)),
    ):
        busy, idle = slots_up(server, 2)
        deploy(server, busy, tmp_path)
        wait_said(server, busy, Deployed)
        server.stop()
        with monkeypatch.context() as later:
            # the coordinator's lease alone: with a short one idle slots end as well when this process is held up
            later.setattr(ControlClient, "silent_s", lambda _: CONTROL_TIMES.lease / 1_000 + 1)
            wait_until(lambda: not is_running(busy.pid), "the attempt has ended")
            assert is_running(idle.pid)
        with ServerInThread(CONTROL_TIMES, port=server.port) as again:
            # the process is gone before its worker knows: the worker may register it once more, and report its end then
            wait_until(lambda: bool(again.connected()) and busy.slot not in again.slots(), "the busy slot is buried")
            assert idle in slots_up(again, 2)


def test_a_new_coordinator_within_the_lease_finds_attempts_busy(tmp_path: Path) -> None:
    with reserved_port() as port, ServerInThread(CONTROL_TIMES, port) as server, supervised(config(server, tmp_path)):
        (slot,) = slots_up(server)
        deploy(server, slot, tmp_path)
        wait_said(server, slot, Deployed)
        server.stop()
        with ServerInThread(CONTROL_TIMES, port=server.port) as again:
            wait_until(lambda: bool(again.connected()), "it registers")
            assert again.connected()[0].register.busy == (slot,)
            again.send("w1", KillSlot(slot.slot))
            wait_down(again, slot)


def test_a_refused_worker_ends(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server:
        supervisor = Supervisor(replace(config(server, tmp_path), token="wrong"))
        supervisor.start()
        with pytest.raises(UserError, match="refuses this worker: its token"):
            supervisor.wait(WAIT_SECONDS)
        supervisor.stop()


def test_a_worker_gives_up_when_it_is_told_to(tmp_path: Path) -> None:
    with reserved_port() as port:
        address = f"127.0.0.1:{port}"
        given = WorkerConfig("w1", address, 1, "127.0.0.1", tmp_path / "w1", TOKEN, CONTROL_TIMES, reconnect_for_ms=300)
        supervisor = Supervisor(given)
        supervisor.start()
        with pytest.raises(UnreachableError, match="no coordinator answered"):
            supervisor.wait(WAIT_SECONDS)
        supervisor.stop()


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    with ServerInThread(CONTROL_TIMES) as server, supervised(config(server, tmp_path)):
        second = Supervisor(config(server, tmp_path))
        with pytest.raises(UserError, match="already"):
            second.start()
