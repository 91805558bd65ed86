"""The bounded part of a slot's figures."""

from __future__ import annotations

from headrace.connect.source import SplitId
from headrace.rpc.figures import PARTITIONS_MAX
from headrace.state.place import StatePlace
from headrace.worker.control import PartitionStatus
from headrace.worker.slot.status_report import furthest_behind, held_state, state_figures


def partition(number: int, lag: int | None, watermark: int | None = 0) -> PartitionStatus:
    return PartitionStatus(SplitId("t", number), 0, lag, watermark, idle=False)


def test_each_state_of_each_node_is_shown_where_it_lies() -> None:
    place = StatePlace()
    totals, hourly, another_slots = (place.of_step() for _ in range(3))
    groups, windows = totals.of_state("groups"), hourly.of_state("windows")
    # the numbers of bytes tell the accounts apart
    accounts = [groups.account(), groups.account(), windows.account(), another_slots.of_state("groups").account()]
    for number, account in enumerate(accounts, 1):
        account.memory_bytes, account.file_bytes = number, 10 * number
    empty = totals.of_state("distinct_x").account()
    cached = totals.account()
    cached.memory_bytes = 100

    shown = state_figures({"totals": totals, "hourly": hourly})
    found = [(each.node, each.state, each.memory_bytes, each.disk_bytes) for each in shown]
    assert found == [("totals", "groups", 3, 30), ("hourly", "windows", 3, 30)]
    held = held_state([totals, hourly], pressed=True)
    assert (held.memory_bytes, held.disk_bytes, held.pressed) == (106, 60, True), "with what steps keep beside"
    assert place.budget.memory_bytes == 110, "slots of one process share a budget"
    del empty


def test_few_partitions_are_all_shown_in_their_order() -> None:
    few = [partition(number, lag=number % 7) for number in range(PARTITIONS_MAX)]
    assert list(furthest_behind(few)) == few


def test_of_many_those_that_are_furthest_behind() -> None:
    many = [partition(number, lag=number) for number in range(1_000)]
    shown = furthest_behind(many)
    assert [each.lag for each in shown] == list(range(999, 999 - PARTITIONS_MAX, -1))


def test_of_those_that_are_at_their_end_those_that_hold_time_back() -> None:
    many = [partition(number, lag=0, watermark=number) for number in range(200)]
    quiet = partition(500, lag=None, watermark=None)
    assert furthest_behind([*many, quiet])[0] == quiet
