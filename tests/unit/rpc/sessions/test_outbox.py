"""What was said and not heard: kept, sent again, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rpc.sessions.outbox import Outbox, OutboxFullError
from support.suite.properties import weighted


def taken(outbox: Outbox[str]) -> list[tuple[int, str]]:
    found = []
    while (item := outbox.take()) is not None:
        found.append(item)
    return found


def test_a_new_stream_carries_what_was_not_heard() -> None:
    outbox: Outbox[str] = Outbox()
    for text in "abc":
        outbox.add(text, 1)
    assert taken(outbox) == [(1, "a"), (2, "b"), (3, "c")]
    outbox.add("d", 1)
    outbox.forget(2)
    outbox.rewind()
    assert taken(outbox) == [(3, "c"), (4, "d")]
    assert taken(outbox) == []


def test_a_new_session_numbers_anew_what_came_after_its_registration() -> None:
    outbox: Outbox[str] = Outbox()
    for text in "abcd":
        outbox.add(text, 1)
    outbox.take()
    assert taken(outbox.renewed(after=2)) == [(1, "c"), (2, "d")]


def test_it_is_bounded_in_messages_and_bytes_but_takes_one_of_any_size() -> None:
    outbox: Outbox[str] = Outbox(messages_max=2, bytes_max=10)
    outbox.add("large", 50)
    with pytest.raises(OutboxFullError):
        outbox.add("more", 1)
    outbox.take()
    outbox.forget(1)
    outbox.add("a", 4)
    outbox.add("b", 4)
    with pytest.raises(OutboxFullError):
        outbox.add("c", 1)
    assert len(outbox) == 2


@weighted(4)
@given(st.lists(st.sampled_from(["add", "take", "drop", "hear"]), max_size=60))
def test_whatever_drops_each_message_is_taken_in_by_the_other_side_once_and_in_order(steps: list[str]) -> None:
    outbox: Outbox[int] = Outbox()
    heard = added = told = 0
    for step in [*steps, "drop", *["take"] * 60]:
        match step:
            case "add":
                outbox.add(added, 1)
                added += 1
            case "take" if (item := outbox.take()) is not None:
                number, message = item
                if number > heard:
                    assert (number, message) == (heard + 1, heard)
                    heard = number
            case "hear":
                told = heard
                outbox.forget(told)
            case "drop":
                outbox.rewind()
    assert heard == added
    assert len(outbox) == added - told
