"""A leader gives up for workers that it has lost, if a standby may reach them; never for workers that have left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.leadership.candidacy.worker_watch import WorkerWatch

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
