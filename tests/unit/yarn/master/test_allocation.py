"""The calls of the ApplicationMasterProtocol, against a model of the ResourceManager."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.yarn.master.allocation import AllocateAnswer, AllocateCall, AllocationMachine
from headrace.yarn.records import Allocation, ContainerSize, Token

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
