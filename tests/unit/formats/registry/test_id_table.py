"""The table of schema ids: a story for each rule, and random stories against what must always hold."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.registry.id_table import (
    ABSENT_MS,
    AWAY_BACKOFF,
    DOUBT_MS,
    REQUESTS_MAX,
    UNUSABLE_MS,
    Absent,
    Ask,
    Event,
    Failed,
    IdKey,
    IdTable,
    Known,
    Learned,
    NotFound,
    Ticked,
    Unusable,
    Waiting,
    Wanted,
)
from headrace.formats.registry.schemas import WholeSchema
from support.suite.properties import weighted

SCHEMA = WholeSchema("AVRO", '"long"')


def key(number: int, registry: str = "http://r:8081") -> IdKey:
    return IdKey(registry, None, number)


K = key(7)
FIRST_PAUSE_MS = round(AWAY_BACKOFF.first_s * 1_000)


def test_an_id_is_asked_for_once_and_known_for_good() -> None:
    table = IdTable()
    assert table.handle(Wanted((K, K)), 0) == (Ask(K),)
    assert table.handle(Wanted((K,)), 1) == ()
    assert table.answer(K, 1) == Waiting(0)
    assert table.handle(Learned(K, SCHEMA), 2) == ()
    assert table.handle(Wanted((K,)), 1 << 40) == ()
    assert table.answer(K, 1 << 40) == Known(SCHEMA)


def test_no_such_schema_is_believed_when_it_is_said_again_10_s_later() -> None:
    table = IdTable()
    table.handle(Wanted((K,)), 0)
    assert table.handle(NotFound(K), 5) == ()
    assert table.wake_ms() == 5 + DOUBT_MS
    assert table.handle(Ticked(), 4 + DOUBT_MS) == ()
    assert table.handle(Ticked(), 5 + DOUBT_MS) == (Ask(K),)
    assert isinstance(table.answer(K, 5 + DOUBT_MS), Waiting)
    table.handle(NotFound(K), 6 + DOUBT_MS)
    assert table.answer(K, 6 + DOUBT_MS) == Absent(6 + DOUBT_MS + ABSENT_MS)
    assert table.waiting() == ()


def test_a_schema_that_a_follower_learns_meanwhile_is_known() -> None:
    table = IdTable()
    table.handle(Wanted((K,)), 0)
    table.handle(NotFound(K), 0)
    table.handle(Ticked(), DOUBT_MS)
    table.handle(Learned(K, SCHEMA), DOUBT_MS)
    assert table.answer(K, DOUBT_MS) == Known(SCHEMA)


def test_an_absent_id_is_asked_for_again_after_30_s_and_one_answer_decides() -> None:
    table = IdTable()
    table.handle(Wanted((K,)), 0)
    table.handle(NotFound(K), 0)
    table.handle(Ticked(), DOUBT_MS)
    table.handle(NotFound(K), DOUBT_MS)
    end = DOUBT_MS + ABSENT_MS
    assert table.handle(Wanted((K,)), end - 1) == ()
    assert table.handle(Wanted((K,)), end) == (Ask(K),)
    assert isinstance(table.answer(K, end), Waiting)
    table.handle(NotFound(K), end + 1)
    assert table.answer(K, end + 1) == Absent(end + 1 + ABSENT_MS)


def test_a_registry_that_is_away_decides_nothing_and_is_asked_by_one_request_at_a_time() -> None:
    table = IdTable()
    assert len(table.handle(Wanted((K, key(8))), 0)) == 2
    table.handle(Failed(K, "it does not answer"), 10)
    assert table.handle(Failed(key(8), "it does not answer"), 11) == ()
    assert table.answer(K, 11) == Waiting(0, "it does not answer")
    assert table.wake_ms() == 10 + FIRST_PAUSE_MS
    assert table.handle(Ticked(), 10 + FIRST_PAUSE_MS) == (Ask(K),)
    assert table.wake_ms() is None
    # it is back: the other id is asked for at once
    assert table.handle(Learned(K, SCHEMA), 600) == (Ask(key(8)),)


def test_pauses_grow_up_to_30_s_and_start_over() -> None:
    table, now = IdTable(), 0
    table.handle(Wanted((K,)), now)
    pauses = []
    for _ in range(10):
        table.handle(Failed(K, "503"), now)
        wake = table.wake_ms()
        assert wake is not None
        pauses.append(wake - now)
        now = wake
        assert table.handle(Ticked(), now) == (Ask(K),)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE_MS, 30_000)
    table.handle(Learned(K, SCHEMA), now)
    table.handle(Wanted((key(8),)), now)
    table.handle(Failed(key(8), "503"), now)
    assert table.wake_ms() == now + FIRST_PAUSE_MS


def test_a_registry_that_is_away_does_not_hold_up_another_one() -> None:
    table, other = IdTable(), key(1, "http://other:8081")
    table.handle(Wanted((K,)), 0)
    table.handle(Failed(K, "503"), 0)
    assert table.handle(Wanted((other, key(8))), 1) == (Ask(other),)


def test_an_id_that_cannot_be_used_waits_alone() -> None:
    table = IdTable()
    table.handle(Wanted((K,)), 0)
    table.handle(Unusable(K, "it has rules"), 0)
    assert table.answer(K, 0) == Waiting(0, "it has rules")
    assert table.handle(Wanted((key(8),)), 1) == (Ask(key(8)),)
    assert table.wake_ms() == UNUSABLE_MS


def test_the_doubt_outlives_a_registry_that_goes_away() -> None:
    table = IdTable()
    table.handle(Wanted((K,)), 0)
    table.handle(NotFound(K), 0)
    table.handle(Ticked(), DOUBT_MS)
    table.handle(Failed(K, "503"), DOUBT_MS)
    table.handle(Ticked(), DOUBT_MS + FIRST_PAUSE_MS)
    table.handle(NotFound(K), DOUBT_MS + FIRST_PAUSE_MS)
    assert isinstance(table.answer(K, DOUBT_MS + FIRST_PAUSE_MS), Absent)


def test_ids_used_least_recently_are_forgotten_first() -> None:
    table = IdTable(ids_max=2)
    for number in (1, 2):
        table.handle(Wanted((key(number),)), 0)
        table.handle(Learned(key(number), SCHEMA), 0)
    table.answer(key(1), 0)
    table.handle(Wanted((key(3),)), 0)
    assert [table.answer(key(number), 0) for number in (1, 2, 3)] == [Known(SCHEMA), None, Waiting(0)]


def test_ids_without_room_are_not_noted() -> None:
    table = IdTable(ids_max=2)
    table.handle(Wanted((key(1), key(2), key(3))), 0)
    assert table.answer(key(3), 0) is None
    table.handle(Learned(key(1), SCHEMA), 0)
    assert table.handle(Wanted((key(3),)), 0) == (Ask(key(3)),)


NUMBERS = st.integers(1, 12)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["want", "learn", "absent", "fail", "unusable", "tick"]),
        NUMBERS,
        st.sampled_from([0, 1, 400, 9_999, 10_000, 30_000]),
    ),
    max_size=60,
)


@weighted(4)
@given(STEPS, st.integers(2, 12))
def test_what_always_holds(steps: list[tuple[str, int, int]], ids_max: int) -> None:
    table, now = IdTable(ids_max=ids_max), 0
    asked: Counter[IdKey] = Counter()
    denied: dict[IdKey, int] = {}
    """When the registry said first, and not otherwise since, that there is none."""
    for step, number, pause in steps:
        now += pause
        answered = key(number, f"http://{number % 2}") if step in ("want", "tick") else next(iter(asked), None)
        if answered is None:
            continue
        event = _event(step, answered)
        if isinstance(event, Learned | NotFound | Failed | Unusable):
            asked.pop(answered)
        if isinstance(event, Learned):
            denied.pop(answered, None)
        if isinstance(event, NotFound):
            denied.setdefault(answered, now)
        for ask in table.handle(event, now):
            asked[ask.key] += 1
        assert max(asked.values(), default=0) <= 1, "an id is asked for once at a time"
        assert sum(asked.values()) <= REQUESTS_MAX
        assert len(table) <= ids_max
        found = table.answer(answered, now)
        if isinstance(found, Absent):
            assert now - denied[answered] >= DOUBT_MS
        wake = table.wake_ms()
        assert wake is None or wake > now, "what is due has been asked for"
        assert asked or wake is not None or not table.waiting(), "an id that waits is asked for, now or later"


def _event(step: str, about: IdKey) -> Event:
    match step:
        case "want":
            return Wanted((about,))
        case "learn":
            return Learned(about, SCHEMA)
        case "absent":
            return NotFound(about)
        case "fail":
            return Failed(about, "503")
        case "unusable":
            return Unusable(about, "rules")
        case _:
            return Ticked()
