"""How far ahead of the slowest a source's partitions may run."""

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.execution.drift_limits import drift_limits, lesser, pressure_limits


def test_the_slowest_of_a_sources_own_partitions_counts() -> None:
    active: dict[str, list[int | None]] = {"a": [500, 300, None], "b": [9], "c": [7]}
    assert drift_limits(active, {"a": 50, "b": 1}) == {"a": 350, "b": 10}


def test_nobody_pauses_while_the_slowest_is_unknown() -> None:
    active: dict[str, list[int | None]] = {"a": [500, TIME_MIN], "idle": [None]}
    assert drift_limits(active, {"a": 50, "idle": 50, "silent": 50}) == {"a": None, "idle": None, "silent": None}


def test_the_end_of_time_is_the_end() -> None:
    assert drift_limits({"a": [TIME_MAX - 1]}, {"a": 50}) == {"a": TIME_MAX}


def test_under_pressure_all_sources_of_a_step_wait_for_its_slowest_which_has_no_limit() -> None:
    active: dict[str, list[int | None]] = {"a": [500, 900], "b": [300, None], "alone": [7]}
    limits = pressure_limits(active, [("a", "b")])
    assert limits == {"a": 300, "b": None}, "a source that no step waits for is not in it"
    assert pressure_limits({"a": [5], "b": [5, 6]}, [("a", "b")]) == {"a": None, "b": None}


def test_what_holds_the_time_of_any_step_back_does_not_pause_for_another_step() -> None:
    active: dict[str, list[int | None]] = {"a": [500], "quiet": [10], "b": [700]}
    for meetings in ([("a", "quiet"), ("a", "b")], [("a", "b"), ("a", "quiet")]):
        limits = pressure_limits(active, meetings)
        assert limits == {"a": None, "quiet": None, "b": 500}, "the time of a step waits for a"


def test_no_source_pauses_for_a_step_whose_slowest_is_unknown() -> None:
    active: dict[str, list[int | None]] = {"a": [500], "silent": [TIME_MIN], "b": [5]}
    limits = pressure_limits(active, [("a", "silent"), ("a", "b")])
    assert limits == {"a": None, "silent": None, "b": None}
    assert pressure_limits({"idle": [None]}, [("idle",)]) == {"idle": None}


def test_the_lesser_of_two_limits_holds() -> None:
    assert lesser({"a": 5, "b": None, "c": 9}, {"a": 7, "b": 3, "d": None}) == {"a": 5, "b": 3, "c": 9, "d": None}
