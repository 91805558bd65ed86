"""Which callers stay at a door when there are too many."""

from __future__ import annotations

from headrace.core.network.entrance import Entrance


def test_the_oldest_that_said_nothing_leaves_first() -> None:
    door: Entrance[str] = Entrance(2)
    assert door.enter("first") is None
    assert door.enter("second") is None
    door.greeted("first")
    assert door.enter("third") == "second"
    assert door.enter("fourth") == "third"
    assert len(door) == 2


def test_where_all_have_greeted_the_oldest_leaves() -> None:
    door: Entrance[str] = Entrance(2)
    for caller in ("first", "second"):
        door.enter(caller)
        door.greeted(caller)
    assert door.enter("third") == "first"


def test_who_is_let_in_makes_room() -> None:
    door: Entrance[str] = Entrance(1)
    door.enter("first")
    door.greeted("first")
    door.leave("first")
    door.leave("first")
    assert door.enter("second") is None


def test_a_greeting_of_one_that_had_to_leave_changes_nothing() -> None:
    door: Entrance[str] = Entrance(1)
    door.enter("first")
    assert door.enter("second") == "first"
    door.greeted("first")
    assert len(door) == 1
