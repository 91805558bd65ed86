"""Splitting a batch: nothing lost, nothing moved, and every row where rule 8 says."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.group_ranges import subtask_of
from headrace.core.keygroups import key_groups
from headrace.exchange.edge.partition import hash_split, open_partitioner
from headrace.plan.partitioning import Broadcast, Forward, Global, Hash, Partitioning, Rebalance, Rescale


@given(
    keys=st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=60),
    parallelism=st.integers(1, 7),
    max_parallelism=st.sampled_from([7, 8, 100, 128]),
)
def test_hash_split_puts_each_row_where_its_group_lives(
    keys: list[int | None], parallelism: int, max_parallelism: int
) -> None:
    batch = pl.DataFrame(
        {"k": pl.Series(keys, dtype=pl.Int64), "n": range(len(keys)), "s": [str(key) for key in keys], "__ts": 0}
    )
    expected: dict[int, list[int]] = {}
    for row, group in enumerate(key_groups(batch, ["k"], max_parallelism).tolist()):
        expected.setdefault(subtask_of(group, parallelism, max_parallelism), []).append(row)
    parts = hash_split(batch, ["k"], parallelism, max_parallelism)
    assert [target for target, _ in parts] == sorted(expected)
    for target, part in parts:
        assert part.gathered().equals(batch[expected[target]])


def test_one_target_gets_the_batch_itself() -> None:
    batch = pl.DataFrame({"k": ["a", "a", "a"]})
    assert hash_split(batch, ["k"], 1, 128)[0][1].gathered() is batch
    ((target, part),) = hash_split(batch, ["k"], 5, 128)
    assert part.gathered() is batch
    assert target == subtask_of(int(key_groups(batch, ["k"], 128)[0]), 5, 128)


def opened(shape: Partitioning, subtask: int, senders: int, receivers: int) -> tuple[list[int], list[list[int]]]:
    """The partitioner's targets, and where each of five batches goes."""
    partitioner = open_partitioner(shape, subtask=subtask, senders=senders, receivers=receivers, max_parallelism=128)
    batch = pl.DataFrame({"k": [1]})
    rounds = []
    for _ in range(5):
        parts = partitioner.split(batch)
        assert all(part.gathered() is batch for _, part in parts)
        rounds.append([target for target, _ in parts])
    return list(partitioner.targets), rounds


def test_shapes_that_keep_batches_whole() -> None:
    assert opened(Forward(), 2, 4, 4) == ([2], [[2]] * 5)
    assert opened(Rebalance(), 1, 2, 3) == ([0, 1, 2], [[1], [2], [0], [1], [2]])
    assert opened(Rebalance(), 5, 6, 2) == ([0, 1], [[1], [0], [1], [0], [1]])
    assert opened(Broadcast(), 0, 1, 3) == ([0, 1, 2], [[0, 1, 2]] * 5)
    assert opened(Global(), 1, 2, 3) == ([0, 1, 2], [[0]] * 5)
    assert opened(Rescale(), 0, 2, 4) == ([0, 1], [[0], [1], [0], [1], [0]])
    assert opened(Rescale(), 1, 2, 4) == ([2, 3], [[2], [3], [2], [3], [2]])
    assert opened(Rescale(), 3, 4, 2) == ([1], [[1]] * 5)


def test_hash_is_connected_to_all_and_sends_rows_to_their_owner() -> None:
    partitioner = open_partitioner(Hash(("k",)), subtask=0, senders=1, receivers=3, max_parallelism=128)
    batch = pl.DataFrame({"k": list("abcdefgh")})
    assert list(partitioner.targets) == [0, 1, 2]
    assert [(target, part.gathered().rows()) for target, part in partitioner.split(batch)] == [
        (target, part.gathered().rows()) for target, part in hash_split(batch, ("k",), 3, 128)
    ]


@pytest.mark.parametrize("senders", range(1, 8))
@pytest.mark.parametrize("receivers", range(1, 8))
def test_rescale_connects_everyone_and_nobody_twice_without_need(senders: int, receivers: int) -> None:
    connected = [opened(Rescale(), subtask, senders, receivers)[0] for subtask in range(senders)]
    assert all(connected), "every sender has a receiver"
    links = [target for targets in connected for target in targets]
    assert set(links) == set(range(receivers)), "every receiver has a sender"
    assert len(links) == max(senders, receivers)
