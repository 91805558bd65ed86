"""From consumed messages to offsets and pieces of one partition each. Reads messages, never calls the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from headrace.connect.source import Offsets, SplitId

# bound once: calling through the type is the cheapest way to read an attribute of every message in a list (a message
# without an error has all three)
_partition_of = cast("Callable[[Message], int]", Message.partition)
_offset_of = cast("Callable[[Message], int]", Message.offset)
_topic_of = cast("Callable[[Message], str]", Message.topic)


@dataclass(slots=True)
class Piece:
    """Messages [begin, end) of a list, of one partition, with their offsets."""

    split: SplitId
    begin: int
    end: int
    offsets: Offsets

    @property
    def next_position(self) -> int:
        """The offset after the last one."""
        return int(self.offsets[-1]) + 1


def pieces(messages: Sequence[Message], assigned: Sequence[SplitId]) -> list[Piece]:
    """The messages by partition, in order of arrival. `assigned`: all partitions that they may belong to."""
    return [_piece(messages, begin, end) for begin, end in _bounds(messages, assigned)]


def bounds_of(changes: npt.NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """Begin and end of each piece. changes: for each message but the last, whether the next has another partition."""
    return pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(changes) + 1])


def _bounds(messages: Sequence[Message], assigned: Sequence[SplitId]) -> Iterable[tuple[int, int]]:
    """The boundaries between partitions. Reads every message: a gap in one partition's offsets can be exactly as long
    as a run of others in between, so the offsets at both ends prove nothing."""
    count = len(messages)
    if len(assigned) == 1:
        return [(0, count)]
    codes: npt.NDArray[np.generic]
    if len({split.topic for split in assigned}) > 1:
        number = {topic: code for code, topic in enumerate({split.topic for split in assigned})}
        topics = np.fromiter((number[topic] for topic in map(_topic_of, messages)), np.int64, count)
        codes = (topics << 32) | np.fromiter(map(_partition_of, messages), np.int64, count)
    elif max(split.partition for split in assigned) < 256:
        codes = np.frombuffer(bytes(map(_partition_of, messages)), np.uint8)
    else:
        codes = np.fromiter(map(_partition_of, messages), np.int32, count)
    return bounds_of(codes[1:] != codes[:-1])


def _piece(messages: Sequence[Message], begin: int, end: int) -> Piece:
    first, last = messages[begin], messages[end - 1]
    low, high = _offset_of(first), _offset_of(last)
    if high - low == end - begin - 1:
        # offsets of a partition only grow, so equal distances mean no gap
        offsets = np.arange(low, high + 1, dtype=np.int64)
    else:
        offsets = np.fromiter(map(_offset_of, messages[begin:end]), np.int64, end - begin)
    return Piece(SplitId(_topic_of(first), _partition_of(first)), begin, end, offsets)
