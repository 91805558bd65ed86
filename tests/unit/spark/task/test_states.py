"""Units of state: which are put together, and which stay."""

from __future__ import annotations

from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.stores.opening import read_url_range
from headrace.operators.aggregation.deltas import Unit
from headrace.spark.task.open_task import UNITS_MAX, carries_over, crowded, written_units


def unit(number: int, rows: int, *place: int) -> Unit:
    return Unit((number, 1), place or (0,), rows)


def part(path: str, portion: tuple[int, ...] = ()) -> FilePart:
    return FilePart(path=path, row_groups=(0,), rows=3, bytes=1, checksum="", portion=portion)


def handle(subtask: int, *files: FilePart, groups: tuple[int, int] = (0, 63), state: str = "windows") -> StateHandle:
    return StateHandle(
        node="n",
        state=state,
        kind="keyed",
        keys=("k",),
        subtask=subtask,
        first_group=groups[0],
        last_group=groups[1],
        columns={},
        files=files,
    )


def test_few_stay_as_they_are() -> None:
    assert crowded([unit(number, 1) for number in range(UNITS_MAX)]) == ()


def test_the_newest_that_are_small_are_put_together_and_a_large_one_stays() -> None:
    small = [unit(number, 1) for number in range(1, UNITS_MAX + 1)]
    assert set(crowded([unit(0, 1_000), *small])) == set(small)
    assert set(crowded([unit(0, 2 * UNITS_MAX), *small])) == {unit(0, 2 * UNITS_MAX), *small}


def test_rows_are_written_again_a_logarithmic_number_of_times() -> None:
    units: list[Unit] = []
    written = 0
    for number in range(2_000):
        taken = crowded(units)
        units = [each for each in units if each not in taken]
        units.append(Unit((number, 1), (0,), 1 + sum(each.rows for each in taken)))
        written += units[-1].rows
        assert len(units) <= UNITS_MAX + 12
    assert sum(each.rows for each in units) == 2_000
    assert written < 2_000 * 12


def test_units_are_whole_over_the_states_of_a_node() -> None:
    handles = [
        handle(0, part("/j/state/a", (4, 1, 60)), part("/j/state/t")),
        handle(0, part("/j/state/d", (4, 1, 60)), state="distinct_x"),
        handle(1, part("/j/state/o", (4, 1, 60))),
    ]
    earlier = written_units(handles, 0, read_url_range)
    assert list(earlier.units) == [Unit((0, 0), (), 3), Unit((4, 1), (60,), 6)]
    assert [each.path for each in earlier.left("distinct_x")] == ["/j/state/d"]


def test_state_is_gone_on_with_only_where_it_lies_in_the_jobs_folder_by_as_many_subtasks() -> None:
    both = [handle(0, part("/j/state/a")), handle(1, part("/j/state/b"), groups=(64, 127))]

    def goes_on(handles: list[StateHandle], parallelism: int = 2) -> bool:
        return carries_over(handles, "/j", parallelism=parallelism, max_parallelism=128)

    assert goes_on(both)
    assert not goes_on([])
    assert not goes_on(both, 3)
    assert not goes_on([both[0], handle(1, part("/elsewhere/state/b"), groups=(64, 127))])
