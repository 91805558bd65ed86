"""Each row of a state has its subtask, at any parallelism."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.own_handles import can_hold
from headrace.core.group_ranges import group_span
from headrace.core.keygroups import key_groups
from headrace.state.redistribute import share
from headrace.state.snapshot import StateKind
from support.storage.checkpoints import handle_of

KEYS = st.lists(st.sampled_from(["a", "b", None, "", "cd", "e"]) | st.text(max_size=3), max_size=40)


@given(KEYS, st.integers(1, 12), st.integers(1, 12))
def test_keyed_rows_go_to_the_owner_of_their_group_and_unneeded_parts_hold_none(
    keys: list[str | None], before: int, after: int
) -> None:
    most = 12
    frame = pl.DataFrame({"key": keys, "n": range(len(keys))}, schema={"key": pl.String, "n": pl.Int64})
    written = [share(frame, StateKind.KEYED, ["key"], subtask, before, most) for subtask in range(before)]
    found: list[int] = []
    for subtask in range(after):
        first, last = group_span(subtask, after, most)
        for old, part in enumerate(written):
            mine = share(part, StateKind.KEYED, ["key"], subtask, after, most)
            groups = key_groups(mine, ["key"], most)
            assert ((groups >= first) & (groups <= last)).all()
            if not can_hold(
                handle_of("keyed", old, before, most, keys=("key",)), subtask, of=after, max_parallelism=most
            ):
                assert not mine.height
            found += mine.get_column("n").to_list()
    assert sorted(found) == list(range(len(keys)))


def test_a_state_without_keys_belongs_to_the_first_subtask() -> None:
    frame = pl.DataFrame({"n": [1, 2]})
    assert [share(frame, StateKind.KEYED, [], subtask, 3, 8).height for subtask in range(3)] == [2, 0, 0]


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 5))
def test_a_list_is_spread_evenly_over_all_frames(heights: list[int], parallelism: int) -> None:
    shares: list[list[int]] = [[] for _ in range(parallelism)]
    rows = 0
    for height in heights:
        frame = pl.DataFrame({"n": range(rows, rows + height)}, schema={"n": pl.Int64})
        for subtask, mine in enumerate(shares):
            found = share(frame, StateKind.LIST, [], subtask, parallelism, 8, first_row=rows)
            mine.extend(found.get_column("n").to_list())
        rows += height
    assert sorted(n for mine in shares for n in mine) == list(range(rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_union_and_broadcast_rows_go_to_everybody() -> None:
    frame = pl.DataFrame({"n": [1, 2]})
    for kind in (StateKind.UNION, StateKind.BROADCAST):
        assert all(share(frame, kind, [], subtask, 3, 8).equals(frame) for subtask in range(3))
