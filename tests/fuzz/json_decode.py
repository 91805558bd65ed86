"""Fuzzes the JSON kernel: `PYTHONPATH=tests python -m fuzz.json_decode --seconds 60 --seed 1`.

Each row that the kernel is sure of must be good in the row reader, and the same bit for bit; alone in a batch a message
must be read as among others. Memory of messages and columns ends at unreadable pages.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.core.types import Schema
from headrace.formats.json.rows import BadValue, RowReader
from headrace.kernels.json_decode import JsonKernel, json_kernel

from fuzz.command import Fuzzer, FuzzError, command
from fuzz.json_documents import Documents
from fuzz.schemas import random_schema
from support.kernels.bits import difference
from support.kernels.guarded_columns import Fence, guarded_columns

DOCUMENTS = 200
"""In a batch."""
_ALONE = 6
_CLEAN_SHARE = 0.25
_DOUBT_MAX = 0.02
"""The share of clean documents that the kernel may leave to the row reader."""
_SURE_MIN = 0.25
"""The share of wild documents that it must not: else the comparison would see little."""
_COUNTED_MIN = 1_000


def batch(chance: Random) -> Counter[str]:
    """One batch of random documents of a random schema. Raises FuzzError."""
    schema = random_schema(chance)
    kernel = json_kernel(schema)
    if kernel is None:
        return Counter(schemas_without_kernel=1)
    documents, is_clean = Documents(schema), chance.random() < _CLEAN_SHARE
    write = documents.clean if is_clean else documents.wild
    messages = [write(chance) for _ in range(DOCUMENTS)]
    counts = _checked(schema, kernel, messages, chance)
    if not is_clean:
        return Counter({f"wild_{name}": count for name, count in counts.items()})
    if counts["bad"]:
        raise FuzzError(f"{counts['bad']} clean documents are bad: the generator is wrong; schema {schema}")
    return Counter({f"clean_{name}": count for name, count in counts.items()})


def verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where the kernel leaves too much to the row reader."""
    clean, wild = counts["clean_messages"], counts["wild_messages"]
    if clean >= _COUNTED_MIN and (clean - counts["clean_sure"]) / clean > _DOUBT_MAX:
        raise FuzzError(f"of {clean:,} clean documents only {counts['clean_sure']:,} are sure")
    if wild >= _COUNTED_MIN and counts["wild_sure"] / wild < _SURE_MIN:
        raise FuzzError(f"of {wild:,} wild documents only {counts['wild_sure']:,} are sure")


def _checked(schema: Schema, kernel: JsonKernel, messages: Sequence[bytes], chance: Random) -> Counter[str]:
    """Counts messages, sure ones, and bad ones."""
    with guarded_columns() as fence:
        frame, doubt = kernel.decode(_column(fence, messages, chance))
        _compare(schema, messages, frame, doubt)
        for index in chance.sample(range(len(messages)), _ALONE):
            alone, alone_doubt = kernel.decode(_column(fence, messages[index : index + 1], chance))
            if bool(alone_doubt[0]) != bool(doubt[index]):
                raise FuzzError(f"doubt differs alone: {messages[index]!r}; schema {schema}")
            _compare(schema, messages[index : index + 1], alone, alone_doubt)
            del alone
        sure = frame.height
        del frame
    return Counter(messages=len(messages), sure=sure, bad=_bad(schema, messages))


def _compare(schema: Schema, messages: Sequence[bytes], frame: pl.DataFrame, doubt: npt.NDArray[np.bool_]) -> None:
    reader = RowReader(schema)
    sure = [message for message, is_doubtful in zip(messages, doubt, strict=True) if not is_doubtful]
    rows = []
    for message in sure:
        try:
            rows.append(reader.read(message))
        except BadValue as bad:
            raise FuzzError(f"sure, but {bad.reason}: {message!r}; schema {schema}") from bad
    if problem := difference(frame, reader.frame(rows)):
        raise FuzzError(f"{problem}; {_named(problem, sure)}schema {schema}")


def _named(problem: str, sure: Sequence[bytes]) -> str:
    """The message of the row that a difference names."""
    row = problem.partition(", row ")[2].partition(":")[0]
    return f"message {sure[int(row)]!r}; " if row.isdecimal() else ""


def _bad(schema: Schema, messages: Sequence[bytes]) -> int:
    reader, bad = RowReader(schema), 0
    for message in messages:
        try:
            reader.read(message)
        except BadValue:
            bad += 1
    return bad


def _column(fence: Fence, messages: Sequence[bytes], chance: Random) -> pa.Array:
    """The messages as binary or large_binary, at times as a part of a longer column."""
    hidden = chance.randrange(4) if chance.random() < 0.3 else 0
    before = [chance.randbytes(chance.randrange(20)) for _ in range(hidden)]
    data, ends = b"".join([*before, *messages]), [0]
    for message in (*before, *messages):
        ends.append(ends[-1] + len(message))
    code, dtype = ("i", pa.binary()) if chance.random() < 0.5 else ("q", pa.large_binary())
    offsets = struct.pack(f"<{len(ends)}{code}", *ends)
    buffers = [None, fence.copy(offsets), fence.copy(data)]
    return pa.Array.from_buffers(dtype, len(messages), buffers, null_count=0, offset=hidden)


FUZZER = Fuzzer("fuzz.json_decode", batch, verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
