"""How soon a slot is replaced."""

from __future__ import annotations

from headrace.worker.supervision.supervisor import BACKOFF, SOON_SECONDS, StartBackoff


def test_a_slot_that_ran_an_attempt_is_replaced_at_once() -> None:
    backoff = StartBackoff()
    backoff.ended(100.0, 0.5, healthy=True)
    assert backoff.may_start(100.0)


def test_a_slot_that_lived_for_a_while_is_replaced_at_once() -> None:
    backoff = StartBackoff()
    backoff.ended(100.0, SOON_SECONDS + 1, healthy=False)
    assert backoff.may_start(100.0)


def test_slots_that_die_of_starting_come_slower_and_slower_until_one_is_well() -> None:
    backoff = StartBackoff()
    waits = []
    now_s = 0.0
    for _ in range(10):
        backoff.ended(now_s, 0.1, healthy=False)
        assert not backoff.may_start(now_s)
        wait_s = next(step / 10 for step in range(1_000) if backoff.may_start(now_s + step / 10))
        waits.append(wait_s)
        now_s += wait_s
    assert waits == sorted(waits)
    assert waits[0] <= BACKOFF.first_s + 0.1
    assert waits[-1] <= BACKOFF.max_s + 0.1
    backoff.ended(now_s, 0.1, healthy=True)
    assert backoff.may_start(now_s)
