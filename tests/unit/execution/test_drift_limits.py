"""How far ahead of the slowest a source's partitions may run."""

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.execution.drift_limits import drift_limits


def test_the_slowest_of_a_sources_own_partitions_counts() -> None:
    active: dict[str, list[int | None]] = {"a": [500, 300, None], "b": [9], "c": [7]}
    assert drift_limits(active, {"a": 50, "b": 1}) == {"a": 350, "b": 10}


def test_nobody_pauses_while_the_slowest_is_unknown() -> None:
    active: dict[str, list[int | None]] = {"a": [500, TIME_MIN], "idle": [None]}
    assert drift_limits(active, {"a": 50, "idle": 50, "silent": 50}) == {"a": None, "idle": None, "silent": None}


def test_the_end_of_time_is_the_end() -> None:
    assert drift_limits({"a": [TIME_MAX - 1]}, {"a": 50}) == {"a": TIME_MAX}
