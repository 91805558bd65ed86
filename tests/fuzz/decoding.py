"""Compares a kernel that decodes messages with the exact reader, for random messages of one schema.

Each row that the kernel is sure of must be good in the reader, and the same bit for bit; alone in a batch a message
must be read as among others, and by the reader the same however much of the stack is left. Memory of messages and
columns ends at unreadable pages.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import polars as pl
import pyarrow as pa

from fuzz.command import FuzzError
from headrace.core.types import Schema
from headrace.formats.doubtful_rows import BadMessageError, Mask, MessageKernel, RowReader, staged_frame
from support.kernels.bits import difference
from support.kernels.guarded_columns import Fence, guarded_columns

MESSAGES = 200
"""In a batch."""
_ALONE, _CUT = 4, 8
"""Messages of a batch that are read once more, alone, and cut where a reader may look further."""
_CLEAN_SHARE = 0.25
_DOUBT_MAX = 0.02
"""The share of clean messages that the kernel may leave to the reader."""
_SURE_MIN = 0.25
"""The share of wild messages that it must not: else the comparison would see little."""
_COUNTED_MIN = 1_000
_DEEPER_SHARE = 0.3
"""Of batches that are read once more by the reader, below up to so many calls."""
_DEEPER_MAX = 700
_CUT_BEHIND = (
    re.compile(rb"\\"),
    re.compile(rb"\\u[dD]"),
    re.compile(rb"[\x80-\xff]"),
    re.compile(rb'[":,]'),
    re.compile(rb"."),
)
_CUT_TRIALS = 8
_FENCE = Fence()
_Row = list[object] | BadMessageError
"""What the reader made of a message."""


class Messages(Protocol):
    """Writes messages for one schema."""

    def clean(self, chance: Random) -> bytes:
        """A message that fits the schema, in a form that the kernel is meant to be sure of."""
        ...

    def wild(self, chance: Random) -> bytes:
        """A message that may be anything."""
        ...


@dataclass(frozen=True, slots=True)
class Decoding:
    """A schema with all that reads and writes its messages.

    text      names it in findings
    is_clean  its plain values can be written in the form that the kernel is sure of
    """

    text: str
    schema: Schema
    kernel: MessageKernel
    reader: RowReader
    messages: Messages
    is_clean: bool = True


def decoding_batch(open_decoding: Callable[[Random], Decoding | None], chance: Random) -> Counter[str]:
    """One batch of random messages of a random schema. Raises FuzzError."""
    decoding = open_decoding(chance)
    if decoding is None:
        return Counter({"schemas without kernel": 1})
    is_clean = decoding.is_clean and chance.random() < _CLEAN_SHARE
    write = decoding.messages.clean if is_clean else decoding.messages.wild
    messages = [write(chance) for _ in range(MESSAGES)]
    rows = [_read(decoding.reader, message) for message in messages]
    if chance.random() < _DEEPER_SHARE:
        _compare_below(chance.randrange(_DEEPER_MAX), decoding, messages, rows)
    bad = [(message, row) for message, row in zip(messages, rows, strict=True) if isinstance(row, BadMessageError)]
    if is_clean and bad:
        raise FuzzError(f"the generator is wrong: {bad[0][1]}: {bad[0][0]!r}; {decoding.text}")
    counts = Counter(messages=len(messages), bad=len(bad), sure=_count_sure(decoding, messages, rows, chance))
    return Counter({f"{'clean' if is_clean else 'wild'} {name}": count for name, count in counts.items()})


def decoding_verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where the kernel leaves too much to the reader."""
    clean, wild = counts["clean messages"], counts["wild messages"]
    if clean >= _COUNTED_MIN and (clean - counts["clean sure"]) / clean > _DOUBT_MAX:
        raise FuzzError(f"of {clean:,} clean messages only {counts['clean sure']:,} are sure")
    if wild >= _COUNTED_MIN and counts["wild sure"] / wild < _SURE_MIN:
        raise FuzzError(f"of {wild:,} wild messages only {counts['wild sure']:,} are sure")


def _count_sure(decoding: Decoding, messages: Sequence[bytes], rows: Sequence[_Row], chance: Random) -> int:
    """Compares all messages, and some alone, with their rows; returns how many the kernel is sure of."""
    with guarded_columns(_FENCE):
        frame, doubt = decoding.kernel.decode(_column(messages, chance))
        _compare(decoding, messages, rows, frame, doubt)
        sure = frame.height
        for index in chance.sample(range(len(messages)), _ALONE):
            one = slice(index, index + 1)
            frame, alone = decoding.kernel.decode(_column(messages[one], chance))
            if alone.tolist() != doubt[one].tolist():
                raise FuzzError(f"the doubt is another one alone: {messages[index]!r}; {decoding.text}")
            _compare(decoding, messages[one], rows[one], frame, alone)
        for _ in range(_CUT):
            cut = [_cut(chance, messages)]
            frame, alone = decoding.kernel.decode(_column(cut, chance))
            _compare(decoding, cut, [_read(decoding.reader, cut[0])], frame, alone)
        # its memory ends with the block
        del frame
    return sure


def _cut(chance: Random, messages: Sequence[bytes]) -> bytes:
    """The begin of a message, most often up to a few bytes behind an escape, a quote, or a byte that is not ASCII."""
    pattern, places = chance.choice(_CUT_BEHIND), []
    for _ in range(_CUT_TRIALS):
        message = chance.choice(messages)
        if places := [found.end() for found in pattern.finditer(message)]:
            return message[: chance.choice(places) + chance.randrange(8)]
    return message[: chance.randrange(len(message) + 1)]


def _read(reader: RowReader, message: bytes) -> _Row:
    try:
        return reader.read(message)
    except BadMessageError as bad:
        return bad


def _compare_below(calls: int, decoding: Decoding, messages: Sequence[bytes], rows: Sequence[_Row]) -> None:
    """Reads the messages again where less of the stack is left."""
    if calls:
        _compare_below(calls - 1, decoding, messages, rows)
        return
    for message, row in zip(messages, rows, strict=True):
        if str(again := _read(decoding.reader, message)) != str(row):
            raise FuzzError(f"{row} and, deeper in the stack, {again}: {message!r}; {decoding.text}")


def _compare(
    decoding: Decoding,
    messages: Sequence[bytes],
    rows: Sequence[_Row],
    frame: pl.DataFrame,
    doubt: Mask,
) -> None:
    sure, sure_rows = [], []
    for message, row, is_doubtful in zip(messages, rows, doubt.tolist(), strict=True):
        if is_doubtful:
            continue
        if isinstance(row, BadMessageError):
            raise FuzzError(f"sure, but {row}: {message!r}; {decoding.text}")
        sure.append(message)
        sure_rows.append(row)
    if not sure and not frame.height:
        # most of those that are alone
        return
    if problem := difference(frame, staged_frame(decoding.schema, sure_rows)):
        place = "" if problem.row is None else f"; message {sure[problem.row]!r}"
        raise FuzzError(f"{problem.text}{place}; {decoding.text}")


def _column(messages: Sequence[bytes], chance: Random) -> pa.Array:
    """The messages as binary or large_binary, at times as a part of a longer column."""
    hidden = chance.randrange(4) if chance.random() < 0.3 else 0
    before = [chance.randbytes(chance.randrange(20)) for _ in range(hidden)]
    data, ends = b"".join([*before, *messages]), [0]
    for message in (*before, *messages):
        ends.append(ends[-1] + len(message))
    code, binary = ("i", pa.binary()) if chance.random() < 0.5 else ("q", pa.large_binary())
    buffers = [None, _FENCE.copy(struct.pack(f"<{len(ends)}{code}", *ends)), _FENCE.copy(data)]
    return pa.Array.from_buffers(binary, len(messages), buffers, null_count=0, offset=hidden)
