"""The height at which idle partitions stand."""

from headrace.coordinator.relay import relayed_heights


def test_the_minimum_over_the_sources_own_active_partitions() -> None:
    assert relayed_heights({"a": [5, 3, None], "b": [9]}) == {"a": 3, "b": 9}


def test_a_source_that_is_all_idle_stands_with_the_others() -> None:
    assert relayed_heights({"a": [None, None], "b": [9], "c": [7]}) == {"a": 7, "b": 9, "c": 7}


def test_nothing_moves_where_everything_is_idle() -> None:
    assert relayed_heights({"a": [None], "b": [None]}) == {"a": None, "b": None}
