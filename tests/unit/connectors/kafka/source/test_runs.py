from __future__ import annotations

import numpy as np
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.source import SplitId
from headrace_connectors.kafka.source.runs import pieces
from support.suite.properties import weighted


@weighted(2)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=30),
    st.sampled_from([("t",), ("t", "u")]),
    st.sampled_from([0, 300]),
)
def test_offsets_and_partitions_are_exact(arrivals: list[tuple[int, int]], topics: tuple[str, ...], first: int) -> None:
    """Any interleaving of partitions with any gaps: also gaps just as long as what lies between from others."""
    splits = [SplitId(topic, first + number) for topic in topics for number in range(3)]
    at = dict.fromkeys(splits, 0)
    expected = []
    for index, (number, step) in enumerate(arrivals):
        split = splits[(number + index % len(topics) * 3) % len(splits)]
        at[split] += step
        expected.append((split, at[split]))
    messages = [Message(topic=split.topic, partition=split.partition, offset=at) for split, at in expected]
    found = pieces(messages, splits)
    assert [piece.begin for piece in found] == [0, *[piece.end for piece in found[:-1]]]
    assert found[-1].end == len(messages)
    assert [(piece.split, at) for piece in found for at in piece.offsets.tolist()] == expected
    assert all(piece.offsets.dtype == np.int64 and len(piece.offsets) == piece.end - piece.begin for piece in found)


def test_one_partition_needs_no_question() -> None:
    messages = [Message(topic="t", partition=0, offset=offset) for offset in (4, 5, 9)]
    (piece,) = pieces(messages, [SplitId("t", 0)])
    assert piece.offsets.tolist() == [4, 5, 9]
    assert piece.next_position == 10
