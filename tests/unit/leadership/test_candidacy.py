"""Decisions that follow from an election: candidacy, observed leases, terms, and lost workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.leadership.candidacy.candidacy import (
    Candidacy,
    CandidacyEvent,
    GiveUp,
    Hold,
    Lead,
    LeaseWatch,
    Replaced,
    Resume,
    Standing,
    StorageLost,
    TermGuard,
    WorkersLost,
    WorkerWatch,
)
from headrace.leadership.elector import Elected, InDoubt, Lost

EVENTS: st.SearchStrategy[CandidacyEvent] = st.sampled_from(
    [Elected(), InDoubt("cut"), Lost("gone"), Replaced("record 7"), StorageLost("no disk"), WorkersLost("cut")]
)


def effects(*events: CandidacyEvent, has_standbys: bool = True) -> list[object]:
    candidacy = Candidacy(has_standbys=has_standbys)
    return [effect for event in events if (effect := candidacy.on(event)) is not None]


def test_doubt_suspends_what_it_accepts_and_a_loss_ends_it() -> None:
    assert effects(InDoubt("cut"), Elected(), Elected()) == [Lead()]
    assert effects(Elected(), InDoubt("cut"), InDoubt("cut"), Elected()) == [Lead(), Hold("cut"), Resume()]
    assert effects(Elected(), InDoubt("cut"), Lost("gone"), Elected()) == [Lead(), Hold("cut"), GiveUp("gone")]
    assert effects(Elected(), Replaced("record 7"), Lost("gone")) == [Lead(), GiveUp("record 7")]
    assert effects(Lost("gone"), Elected()) == [GiveUp("gone")]


def test_without_standbys_nobody_else_could_reach_storage_or_workers() -> None:
    assert effects(Elected(), StorageLost("no disk")) == [Lead(), GiveUp("no disk")]
    assert effects(Elected(), WorkersLost("cut")) == [Lead(), GiveUp("cut")]
    alone = effects(Elected(), StorageLost("no disk"), WorkersLost("cut"), Replaced("r"), has_standbys=False)
    assert alone == [Lead(), GiveUp("r")]


@given(st.lists(EVENTS, max_size=12))
def test_it_takes_over_at_most_once_and_does_nothing_after_it_gave_up(events: list[CandidacyEvent]) -> None:
    candidacy = Candidacy(has_standbys=True)
    seen: list[object] = []
    for event in events:
        before = candidacy.standing
        effect = candidacy.on(event)
        if effect is None:
            continue
        assert before is not Standing.OVER
        seen.append(effect)
    assert seen.count(Lead()) <= 1
    assert sum(isinstance(each, GiveUp) for each in seen) <= 1
    # what it holds it resumes before it holds again
    held = [each for each in seen if isinstance(each, Hold | Resume)]
    assert all(isinstance(each, Hold) == (place % 2 == 0) for place, each in enumerate(held))


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


def test_lower_terms_are_not_obeyed() -> None:
    guard = TermGuard()
    seen = [("a", 3), ("a", 3), ("a", 2), ("a", 7), ("a", 3), ("b", 1), ("b", 0), ("a", 1)]
    assert [guard.admits(*each) for each in seen] == [True, True, False, True, False, True, False, True]


LIMIT_MS, NOTICE_MS = 1_000, 3_000


def seen(*looks: tuple[int, int, int], standby_ms: int | None = None) -> list[bool]:
    """What it decides at each look: connected, lost in all, time."""
    watch = WorkerWatch(LIMIT_MS, NOTICE_MS)
    if standby_ms is not None:
        watch.standby_seen(standby_ms)
    return [watch.gives_up(*look) for look in looks]


def test_workers_are_lost_after_a_while_without_any() -> None:
    looks = [(0, 0, 0), (0, 0, 5_000), (1, 0, 6_000), (0, 1, 6_100), (0, 1, 7_099), (2, 1, 7_100)]
    looks += [(0, 3, 7_200), (0, 3, 8_199), (0, 3, 8_200)]
    assert seen(*looks, standby_ms=7_000) == [False] * 8 + [True]


def test_workers_that_left_are_not_lost() -> None:
    assert not any(seen((2, 0, 0), (0, 0, 100), (0, 0, 9_000), standby_ms=100))
    # one was lost long ago, and the last one has left
    assert not any(seen((2, 0, 0), (1, 1, 100), (0, 1, 200), (0, 1, 9_000), standby_ms=100))
    # the last one was lost
    assert seen((2, 0, 0), (1, 0, 100), (0, 1, 200), (0, 1, 9_000), standby_ms=100)[-1]


def test_without_a_standby_nobody_could_reach_more() -> None:
    assert not any(seen((1, 0, 0), (0, 1, 100), (0, 1, 60_000)))
    # gone long before the workers
    assert not any(seen((1, 0, 9_000), (0, 1, 9_100), (0, 1, 60_000), standby_ms=5_000))


def test_a_standby_that_was_lost_together_with_the_workers_counts() -> None:
    """The leader is cut off from all of them: it notices that it has lost the workers later."""
    assert seen((1, 0, 0), (1, 0, 3_000), (0, 1, 3_100), (0, 1, 4_100), standby_ms=0)[-1]


def test_a_standby_that_comes_later_counts() -> None:
    watch = WorkerWatch(LIMIT_MS, NOTICE_MS)
    assert not watch.gives_up(1, 0, 0)
    assert not watch.gives_up(0, 1, 10)
    assert not watch.gives_up(0, 1, 5_000)
    watch.standby_seen(5_100)
    assert watch.gives_up(0, 1, 5_200)


@given(st.lists(st.tuples(st.sampled_from(["joins", "leaves", "is lost", "standby", "look"]), st.integers(1, 700))))
def test_it_gives_up_only_for_a_reason(story: list[tuple[str, int]]) -> None:
    watch, now_ms, connected, lost = WorkerWatch(LIMIT_MS, NOTICE_MS), 0, 0, 0
    standbys: list[int] = []
    last_end = ""
    for event, pause_ms in story:
        now_ms += pause_ms
        match event:
            case "joins":
                connected += 1
            case "leaves" | "is lost" if connected:
                connected -= 1
                lost += event == "is lost"
                last_end = event if connected == 0 else last_end
            case "standby":
                watch.standby_seen(now_ms)
                standbys.append(now_ms)
            case _:
                pass
        if watch.gives_up(connected, lost, now_ms):
            assert connected == 0
            assert last_end == "is lost"
            assert standbys
