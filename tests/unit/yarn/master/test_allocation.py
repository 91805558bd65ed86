"""The calls of the ApplicationMasterProtocol, against a model of the ResourceManager; the roster of containers."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.yarn.master.allocation import (
    MORE_MEMORY,
    AllocateAnswer,
    AllocateCall,
    AllocationMachine,
    HeldPhase,
    Roster,
    reason_of,
)
from headrace.yarn.records import Allocation, ContainerEnd, ContainerSize, Token

TOKEN = Token(b"", "", b"", "")


def allocation(number: int, container: str = "") -> Allocation:
    return Allocation(container or f"container_{number}", number, "node:1", "", ContainerSize(1, 1), 1, TOKEN)


def test_a_request_is_sent_once_and_its_grant_is_returned() -> None:
    machine = AllocationMachine()
    machine.request(7)
    assert machine.next_call() == AllocateCall(0, ((7, 1),))
    assert machine.answered(AllocateAnswer(1)) == ()
    assert machine.is_eager, "a request is outstanding"
    assert machine.next_call() == AllocateCall(1)
    assert machine.answered(AllocateAnswer(2, (allocation(7),))) == (allocation(7),)
    assert not machine.is_eager
    assert machine.next_call() == AllocateCall(2)


def test_a_call_without_an_answer_is_repeated_unchanged() -> None:
    machine = AllocationMachine()
    machine.request(1)
    first = machine.next_call()
    machine.request(2)
    machine.release("container_9")
    assert machine.next_call() == first, "the ResourceManager answers it with the lost answer, and reads nothing of it"
    machine.answered(AllocateAnswer(1))
    assert machine.next_call() == AllocateCall(1, ((2, 1),), ("container_9",))


def test_a_withdrawn_request_that_was_granted_meanwhile_is_given_back() -> None:
    machine = AllocationMachine()
    machine.request(1)
    machine.next_call()
    machine.withdraw(1)
    assert machine.answered(AllocateAnswer(1, (allocation(1),))) == ()
    assert machine.next_call() == AllocateCall(1, ((1, 0),), ("container_1",))


def test_a_second_container_for_a_request_is_given_back() -> None:
    machine = AllocationMachine()
    machine.request(1)
    machine.next_call()
    granted = machine.answered(AllocateAnswer(1, (allocation(1, "a"), allocation(1, "b"))))
    assert [each.container for each in granted] == ["a"]
    assert machine.next_call().releases == ("b",)


def test_after_a_restart_of_the_resource_manager_everything_outstanding_is_sent_again() -> None:
    machine = AllocationMachine()
    for number in (1, 2):
        machine.request(number)
    machine.next_call()
    machine.answered(AllocateAnswer(5, (allocation(1),)))
    machine.release("container_1")
    machine.next_call()
    machine.registered_again()
    assert machine.next_call() == AllocateCall(0, ((2, 1),), ("container_1",))


@dataclass
class ResourceManager:
    """By the rules of `ApplicationMasterService.allocate`."""

    response_id: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    granted: int = 0
    last: AllocateAnswer = field(default_factory=lambda: AllocateAnswer(0))

    def allocate(self, call: AllocateCall, grants: int) -> AllocateAnswer:
        if call.response_id == self.response_id - 1:
            return self.last
        assert call.response_id == self.response_id, "any other id is refused"
        self.counts.update(call.counts)
        self.running -= set(call.releases)
        allocated = []
        for number in [each for each, count in sorted(self.counts.items()) if count][:grants]:
            self.granted += 1
            self.counts[number] -= 1
            allocated.append(allocation(number, f"c{self.granted}"))
            self.running.add(f"c{self.granted}")
        self.response_id += 1
        self.last = AllocateAnswer(self.response_id, tuple(allocated))
        return self.last

    def restart(self) -> None:
        """It remembers containers, and no request."""
        self.response_id, self.counts, self.last = 0, {}, AllocateAnswer(0)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["request", "withdraw"]), st.integers(0, 4)),
    st.tuples(st.sampled_from(["call", "lost"]), st.integers(0, 3)),
    st.just(("restart", 0)),
)


@given(st.lists(STEPS, max_size=60))
def test_each_wanted_number_ends_with_one_container_and_nothing_is_left(steps: list[tuple[str, int]]) -> None:
    machine, manager, wanted = AllocationMachine(), ResourceManager(), set[int]()
    held: dict[int, str] = {}

    def call(grants: int, *, is_lost: bool) -> None:
        answer = manager.allocate(machine.next_call(), grants)
        if not is_lost:
            held.update({each.number: each.container for each in machine.answered(answer)})

    for step, value in steps:
        match step:
            case "request":
                if value not in wanted:
                    wanted.add(value)
                    machine.request(value)
            case "withdraw":
                wanted.discard(value)
                if value in held:
                    machine.release(held.pop(value))
                else:
                    machine.withdraw(value)
            case "call" | "lost":
                call(value, is_lost=step == "lost")
            case _:
                # containers whose grant was never received are not running, and so not recovered
                manager.running &= set(held.values())
                manager.restart()
                machine.registered_again()
    for _ in range(8):
        call(8, is_lost=False)
    assert set(held) == wanted
    assert manager.running == set(held.values())


def running(*numbers: int) -> Roster:
    roster = Roster()
    for number in numbers:
        assert roster.requested(number)
        roster.granted(allocation(number))
        roster.started(number)
    return roster


def phases(roster: Roster) -> dict[int, HeldPhase]:
    return {each.number: each.phase for each in roster.listed()}


def test_a_container_from_its_request_to_its_end() -> None:
    roster = Roster()
    assert roster.requested(1)
    assert not roster.requested(1)
    assert phases(roster) == {1: HeldPhase.REQUESTED}
    roster.granted(allocation(1))
    assert phases(roster) == {1: HeldPhase.GRANTED}
    roster.started(1)
    assert phases(roster) == {1: HeldPhase.RUNNING}
    roster.ended([ContainerEnd("container_1", 137, "Killed by external signal")])
    assert phases(roster) == {1: HeldPhase.ENDED}
    assert roster.released(1) is None
    assert phases(roster) == {}


def test_a_released_container_stays_until_its_end() -> None:
    roster = running(1)
    held = roster.released(1)
    assert held is not None
    assert held.container == "container_1"
    assert roster.released(1) is None, "YARN was asked"
    assert phases(roster) == {1: HeldPhase.RUNNING}
    roster.ended([ContainerEnd("container_1", -100, "released")])
    assert phases(roster) == {}


def test_a_container_that_was_killed_for_its_memory_names_that_after_its_release() -> None:
    roster = running(1, 2)
    assert roster.released(1) is not None, "its worker did not come back"
    roster.ended([ContainerEnd("container_1", -104, "beyond the 'PHYSICAL' memory limit")])
    (ended, _) = roster.listed()
    assert (ended.phase, ended.reason) == (
        HeldPhase.ENDED,
        f"exit code -104: beyond the 'PHYSICAL' memory limit; {MORE_MEMORY}",
    )
    assert roster.released(1) is None
    assert phases(roster) == {2: HeldPhase.RUNNING}


def test_an_end_before_the_answer_to_its_start_counts() -> None:
    roster = Roster()
    roster.requested(1)
    roster.granted(allocation(1))
    roster.ended([ContainerEnd("container_1", 1, "")])
    roster.started(1)
    roster.failed(1, "the answer was lost")
    assert [(each.phase, each.reason) for each in roster.listed()] == [(HeldPhase.ENDED, "exit code 1")]


def test_a_later_attempt_takes_over_what_runs_and_ignores_ends_of_others() -> None:
    roster = Roster()
    roster.kept([allocation(3), allocation(4)])
    roster.ended([ContainerEnd("container_9", -105, "the old ApplicationMaster")])
    assert phases(roster) == {3: HeldPhase.RUNNING, 4: HeldPhase.RUNNING}
    # a registration after a restart of the ResourceManager names none
    roster.kept([])
    assert len(roster.listed()) == 2


def test_reasons_are_those_of_yarn() -> None:
    old = "[2026-11-26 17:00:00.000]Container [pid=1,containerID=c] is running beyond physical memory limits. Current"
    new = "Container [pid=1,containerID=c] is running 7B beyond the 'PHYSICAL' memory limit. Current usage: 1.2 GB"
    for line in (old, new):
        reason = reason_of(ContainerEnd("c", -104, f"{line}\nDump of the process-tree for c :\n\t|- PID PPID\n"))
        assert reason == f"exit code -104: {line}; {MORE_MEMORY}"
    printed = (
        "[2026-11-26 17:00:00.000]Exception from container-launch.\nContainer id: c\nExit code: 1\n\n"
        "[2026-11-26 17:00:00.001]Container exited with a non-zero exit code 1. Error file: prelaunch.err.\n"
        "Last 4096 bytes of prelaunch.err :\nLast 4096 bytes of stderr :\nerror: there is no token\n"
    )
    assert reason_of(ContainerEnd("c", 1, printed)).endswith("error: there is no token")
    assert reason_of(ContainerEnd("c", 137, "")) == "exit code 137"
    assert len(reason_of(ContainerEnd("c", 1, "x" * 9_000))) <= 500
