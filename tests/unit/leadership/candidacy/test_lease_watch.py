"""A lease expires by the observer's clock: after it has seen the same beat for the whole lease."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.leadership.candidacy.lease_watch import LeaseWatch


def test_a_lease_counts_from_the_first_look_and_each_beat_begins_it_anew() -> None:
    watch = LeaseWatch(1_000)
    assert [watch.has_expired(None, now_ms) for now_ms in (50_000, 50_999, 51_000)] == [False, False, True]
    assert not watch.has_expired(b"1", 51_001)
    assert not watch.has_expired(b"1", 52_000)
    assert not watch.has_expired(b"2", 52_001)
    assert watch.has_expired(b"2", 53_001)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 700)), max_size=30))
def test_it_expires_exactly_if_one_beat_was_seen_for_the_lease(looks: list[tuple[int, int]]) -> None:
    watch, now_ms, seen = LeaseWatch(1_000), 0, list[tuple[int, int]]()
    for beat, pause_ms in looks:
        now_ms += pause_ms
        seen.append((beat, now_ms))
        first = len(seen) - 1
        while first and seen[first - 1][0] == beat:
            first -= 1
        assert watch.has_expired(str(beat).encode(), now_ms) == (now_ms - seen[first][1] >= 1_000)
