"""The slot pool: who gets which slots, what a lost worker takes along, and what always holds."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from headrace.coordinator.provisioning.slot_pool import (
    Changed,
    Demand,
    Grant,
    Holding,
    PooledWorker,
    QueuedView,
    SlotPool,
)
from headrace.rpc.messages import Address, SlotInfo
from support.suite.properties import weighted


def info(slot: str) -> SlotInfo:
    return SlotInfo(slot, 1, Address("127.0.0.1", 1, ""))


def with_workers(**slots: int) -> SlotPool:
    pool = SlotPool()
    for worker, count in slots.items():
        pool.register(worker, "host", 1, count, [info(f"{worker}{number}") for number in range(count)])
    return pool


def names(grants: tuple[Grant, ...]) -> list[str]:
    (grant,) = grants
    return [slot.slot for slot in grant.slots]


def test_slots_are_spread_evenly_and_the_same_ones_each_time() -> None:
    assert names(with_workers(a=2, b=2, c=2).request("job", 1, 3)) == ["a0", "b0", "c0"]
    assert names(with_workers(a=2, b=2, c=2).request("job", 1, 5)) == ["a0", "b0", "c0", "a1", "b1"]
    # the worker with most free slots comes first
    assert names(with_workers(a=1, b=3).request("job", 1, 2)) == ["b0", "a0"]


def test_a_request_is_granted_whole_or_waits() -> None:
    pool = with_workers(a=2)
    assert names(pool.request("first", 1, 1)) == ["a0"]
    assert not pool.request("second", 1, 2)
    assert pool.view().slots_free == 1
    pool.release("a0")
    # the slot is spent: its replacement serves
    assert pool.slot_down("a0").grants == ()
    grants = pool.slot_up("a", info("a9")).grants
    assert (grants[0].job, names(grants)) == ("second", ["a1", "a9"])


def test_first_come_first_served_but_for_what_the_cluster_cannot_hold() -> None:
    pool = with_workers(a=2)
    assert pool.request("busy", 1, 1)
    assert not pool.request("large", 1, 2)
    assert not pool.request("small", 1, 1), "a small request does not overtake for ever"
    assert not pool.request("huge", 1, 3)
    assert pool.view().queued == (
        QueuedView("large", 1, 2),
        QueuedView("small", 1, 1),
        QueuedView("huge", 1, 3),
    )
    # with the large one gone the small one is next; the huge one stands in nobody's way
    assert [grant.job for grant in pool.cancel_request("large")] == ["small"]
    pool.release_attempt("small", 1, deployed=False)
    assert pool.request("late", 1, 1)
    changed = pool.register("b", "host", 2, 3, [info("b0"), info("b1"), info("b2")])
    assert [grant.job for grant in changed.grants] == ["huge"]


def test_a_job_that_asks_anew_stands_in_nobodys_way() -> None:
    pool = with_workers(a=2)
    assert names(pool.request("busy", 1, 1)) == ["a0"]
    assert not pool.request("changed", 1, 2)
    assert not pool.request("small", 1, 1)
    assert [grant.job for grant in pool.request("changed", 2, 1)] == ["small"]


def test_demand_is_what_each_job_holds_or_requests() -> None:
    pool = with_workers(a=2, b=1)
    assert pool.demand() == Demand(0, (PooledWorker("a", 2, idle=True), PooledWorker("b", 1, idle=True)))
    assert names(pool.request("job", 1, 2)) == ["a0", "b0"]
    assert not pool.request("large", 1, 9)
    assert pool.demand() == Demand(11, (PooledWorker("a", 2, idle=False), PooledWorker("b", 1, idle=False)))
    # its next attempt, while slots of the one before are still exiting
    assert not pool.request("job", 2, 2)
    assert pool.demand().slots == 11


def test_an_idle_worker_is_drained() -> None:
    pool = with_workers(a=1, b=1)
    assert names(pool.request("job", 1, 1)) == ["a0"]
    pool.drain("a")
    pool.drain("b")
    pool.drain("unknown")
    assert [each.worker for each in pool.demand().workers] == ["a"], "one that is in use stays"
    assert not pool.request("other", 1, 1)
    assert pool.view().slots_total == 1
    pool.slot_up("b", info("b1"))
    assert pool.view().slots_free == 0
    assert pool.worker_lost("b") == Changed()


def test_a_worker_that_leaves_keeps_what_is_held_and_gets_nothing_more() -> None:
    pool = with_workers(a=2, b=1)
    assert names(pool.request("job", 1, 2)) == ["a0", "b0"]
    assert not pool.request("job", 2, 2)
    leaving = pool.leave("a")
    assert leaving.held == (Holding("job", 1, "a0", "a"),)
    assert (pool.view().slots_total, pool.view().slots_free) == (1, 0)
    assert [each.worker for each in pool.demand().workers] == ["b"], "another worker is needed"
    pool.release_attempt("job", 1)
    assert not pool.slot_up("a", info("a9")).grants
    pool.register("c", "host", 1, 1, [info("c0")])
    pool.slot_down("b0")
    assert names(pool.slot_up("b", info("b1")).grants) == ["b1", "c0"]
    assert pool.leave("unknown") == pool.leave("unknown")


def test_a_smaller_cluster_lets_others_pass() -> None:
    pool = with_workers(a=1, b=1)
    assert names(pool.request("busy", 1, 1)) == ["a0"]
    assert not pool.request("large", 1, 2)
    assert not pool.request("small", 1, 1)
    assert pool.worker_lost("a") == Changed(
        lost=(Holding("busy", 1, "a0", "a"),), grants=(Grant("small", 1, pool.held_by("small", 1)),)
    )


def test_a_slot_that_ends_is_lost_to_its_attempt() -> None:
    pool = with_workers(a=2)
    pool.request("job", 4, 2)
    assert pool.slot_down("a1").lost == (Holding("job", 4, "a1", "a"),)
    assert [slot.slot for slot in pool.held_by("job", 4)] == ["a0"]
    pool.release("a0")
    assert pool.slot_down("a0").lost == ()


def test_a_slot_that_nothing_was_deployed_to_is_free_again() -> None:
    pool = with_workers(a=1)
    pool.request("job", 1, 1)
    pool.release("a0", deployed=False)
    assert names(pool.request("other", 1, 1)) == ["a0"]


def test_a_worker_that_comes_back_is_compared_with_what_is_known() -> None:
    pool = with_workers(a=3)
    assert names(pool.request("job", 1, 2)) == ["a0", "a1"]
    changed = pool.register("a", "host", 7, 3, idle=[info("a0"), info("a3")], busy=[info("a4"), info("a2")])
    # a0 waits for its deployment, a1 is gone; a2 was free and a4 unknown, yet both run something
    assert changed.lost == (Holding("job", 1, "a1", "a"),)
    assert set(changed.strangers) == {"a2", "a4"}
    assert [slot.slot for slot in pool.held_by("job", 1)] == ["a0"]
    assert pool.view().slots_free == 1


def test_news_of_unknown_workers_and_slots_changes_nothing() -> None:
    pool = with_workers(a=1)
    before = pool.view()
    pool.slot_up("nobody", info("x"))
    pool.slot_down("x")
    pool.worker_lost("nobody")
    pool.release("x")
    pool.cancel_request("nobody")
    assert pool.view() == before


class PoolMachine(RuleBasedStateMachine):
    """Any order of events: what is granted is free, whole and granted once."""

    slots = Bundle("slots")

    def __init__(self) -> None:
        super().__init__()
        self.pool = SlotPool()
        self.made = 0
        self.attempt = 0
        self.held: dict[str, tuple[str, int]] = {}
        self.spent: set[str] = set()
        self.waiting: dict[str, tuple[int, int]] = {}

    def _new(self) -> SlotInfo:
        self.made += 1
        return info(f"s{self.made}")

    def _take(self, grants: tuple[Grant, ...]) -> None:
        for grant in grants:
            assert self.waiting.pop(grant.job) == (grant.attempt, len(grant.slots))
            for slot in grant.slots:
                assert slot.slot not in self.held
                assert slot.slot not in self.spent
                self.held[slot.slot] = (grant.job, grant.attempt)

    def _changed(self, changed: Changed) -> None:
        for lost in changed.lost:
            assert self.held.pop(lost.slot) == (lost.job, lost.attempt)
        self._take(changed.grants)

    @rule(target=slots, worker=st.sampled_from("abc"), count=st.integers(0, 4))
    def register(self, worker: str, count: int) -> object:
        idle = [self._new() for _ in range(count)]
        self._changed(self.pool.register(worker, "host", 1, max(count, 1), idle))
        return multiple(*(each.slot for each in idle))

    @rule(target=slots, worker=st.sampled_from("abc"))
    def up(self, worker: str) -> str:
        slot = self._new()
        self._changed(self.pool.slot_up(worker, slot))
        return slot.slot

    @rule(slot=consumes(slots))
    def down(self, slot: str) -> None:
        self._changed(self.pool.slot_down(slot))

    @rule(worker=st.sampled_from("abc"))
    def lose(self, worker: str) -> None:
        self._changed(self.pool.worker_lost(worker))

    @rule(worker=st.sampled_from("abc"))
    def drain(self, worker: str) -> None:
        self._changed(self.pool.drain(worker))

    @rule(worker=st.sampled_from(["a", "b", "c"]))
    def leave(self, worker: str) -> None:
        leaving = self.pool.leave(worker)
        assert {each.slot for each in leaving.held} <= self.held.keys()
        self._take(leaving.grants)

    @rule(job=st.sampled_from(["j1", "j2", "j3", "j4"]), count=st.integers(1, 6))
    def request(self, job: str, count: int) -> None:
        self.attempt += 1
        self.waiting[job] = (self.attempt, count)
        self._take(self.pool.request(job, self.attempt, count))

    @rule(job=st.sampled_from(["j1", "j2", "j3", "j4"]))
    def cancel(self, job: str) -> None:
        self.waiting.pop(job, None)
        self._take(self.pool.cancel_request(job))

    @rule(slot=slots, deployed=st.booleans())
    def release(self, slot: str, deployed: bool) -> None:
        if self.held.pop(slot, None) is not None and deployed:
            self.spent.add(slot)
        self._take(self.pool.release(slot, deployed=deployed))

    @invariant()
    def holds(self) -> None:
        self.pool.validate()
        view = self.pool.view()
        assert {each.job: (each.attempt, each.slots) for each in view.queued} == self.waiting
        assert all(each.free >= 0 for each in view.workers)
        for holder in set(self.held.values()):
            known = {slot.slot for slot in self.pool.held_by(*holder)}
            assert known == {slot for slot, by in self.held.items() if by == holder}


TestPool = PoolMachine.TestCase
TestPool.settings = settings(weighted(2), stateful_step_count=30)
