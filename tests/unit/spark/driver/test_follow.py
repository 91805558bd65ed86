"""Idle partitions of a followed pipeline."""

from __future__ import annotations

from headrace.core.source_state import SourceState, SplitState
from headrace.spark.driver.follow import IdleSplits, SourceClock

LAG_MS = 11
IDLE_MS = 1_000


def state(*max_ts: int | None) -> SourceState:
    """A source whose partitions have come so far."""
    return SourceState(tuple(SplitState("t", number, 5, ts) for number, ts in enumerate(max_ts)))


def floors(states: dict[str, SourceState], source: str = "a") -> list[int | None]:
    return [split.floor for split in states[source].splits]


def places(states: dict[str, SourceState]) -> list[tuple[str, str, int]]:
    return [(source, "t", split.partition) for source, each in states.items() for split in each.splits]


def idle_splits(*sources: str, after_ms: int | None = IDLE_MS) -> IdleSplits:
    return IdleSplits({source: SourceClock(LAG_MS, after_ms) for source in sources})


def test_one_stands_where_the_others_are() -> None:
    idle, states = idle_splits("a"), {"a": state(100, 900, 700)}
    idle.seen(places(states), (), 0)
    idle.seen(places(states), [("a", "t", 1), ("a", "t", 2)], IDLE_MS)
    assert floors(idle.raised(states, IDLE_MS)) == [700 - LAG_MS, None, None]


def test_it_is_idle_only_after_that_long_and_never_without_a_limit() -> None:
    idle, never, states = idle_splits("a"), idle_splits("a", after_ms=None), {"a": state(100, 900)}
    for each in (idle, never):
        each.seen(places(states), (), 0)
        each.seen(places(states), [("a", "t", 1)], IDLE_MS - 1)
    assert idle.raised(states, IDLE_MS - 1) == states
    assert never.raised(states, IDLE_MS * 100) == states


def test_one_with_new_rows_stands_where_it_is() -> None:
    idle, states = idle_splits("a"), {"a": state(100, 900)}
    idle.seen(places(states), (), 0)
    idle.seen(places(states), places(states), IDLE_MS)
    assert idle.raised(states, IDLE_MS) == states


def test_all_of_a_source_stand_where_other_sources_are_or_at_what_one_has_reached() -> None:
    idle, states = idle_splits("a", "b"), {"a": state(100, None), "b": state(500)}
    idle.seen(places(states), (), 0)
    raised = idle.raised(states, IDLE_MS)
    assert (floors(raised), raised["b"]) == ([None, 100 - LAG_MS], states["b"])
    idle.seen(places(states), [("b", "t", 0)], IDLE_MS)
    assert floors(idle.raised(states, IDLE_MS)) == [500 - LAG_MS, 500 - LAG_MS]


def test_nobody_falls_and_what_has_ended_holds_nobody_back() -> None:
    idle, states = idle_splits("a", "b"), {"a": state(800, 900), "b": state(5)}
    idle.seen(places(states), (), 0)
    idle.seen(places(states), [("a", "t", 1)], IDLE_MS)
    raised = idle.raised(states, IDLE_MS, ended=["b"])
    assert floors(raised) == [900 - LAG_MS, None]
    again = idle.raised(raised, IDLE_MS)
    assert again == raised | {"b": again["b"]}
