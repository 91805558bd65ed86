"""Fuzzes the kernel that encodes JSON: `PYTHONPATH=tests python -m fuzz.json_encode --seconds 60 --seed 1`.

Random frames of random schemas: the kernel has to write all of them, byte for byte as polars does, also into memory
that ends at an unreadable page and is full again and again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import polars as pl

from fuzz.command import Fuzzer, FuzzError, command
from fuzz.generators.rows import random_frame
from fuzz.generators.schemas import random_schema
from headrace.formats.json.encode import TimestampStyle, encode_json_object
from headrace.kernels.json_encode import json_encode_kernel
from support.kernels.guarded_json import guarded_texts

_GUARDED_SHARE = 0.2
_STEPS_BYTES = (1, 50, 1_000, 100_000)


def encoding_batch(chance: Random) -> Counter[str]:
    """One frame. Raises FuzzError."""
    schema = random_schema(chance)
    frame = random_frame(chance, schema)
    columns = list(schema.names)
    if chance.random() < 0.3:
        columns = chance.sample(columns, chance.randint(1, len(columns)))
    style: TimestampStyle = chance.choice(("rfc3339", "epoch_ms"))
    expected = encode_json_object(frame, columns, timestamps=style, kernels=False).to_pylist()
    step_bytes = chance.choice(_STEPS_BYTES)
    # memory mapped for each buffer takes most of the time
    guarded_rows = chance.random() < _GUARDED_SHARE
    guarded = guarded_texts(
        frame, columns, epoch_ms=style == "epoch_ms", step_bytes=step_bytes, guarded_rows=guarded_rows
    )
    _compare(frame, columns, expected, None if guarded is None else [text.decode() for text in guarded])
    _compare(frame, columns, expected, _texts(frame, columns, style))
    return Counter(frames=1, rows=frame.height, bytes=sum(map(len, expected)))


def encoding_verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where nothing was compared."""
    if not counts["rows"]:
        raise FuzzError("no rows were written")


def _texts(frame: pl.DataFrame, columns: Sequence[str], style: TimestampStyle) -> list[str] | None:
    kernel = json_encode_kernel(columns, epoch_ms=style == "epoch_ms")
    assert kernel is not None, "kernels are compiled"
    messages = kernel.encode(frame)
    if messages is None:
        return None
    messages.validate(full=True)
    texts: list[str] = messages.to_pylist()
    return texts


def _compare(frame: pl.DataFrame, columns: Sequence[str], expected: Sequence[str], found: Sequence[str] | None) -> None:
    if found is None:
        raise FuzzError(f"doubt: {frame.schema}, columns {columns}")
    if len(found) != len(expected):
        raise FuzzError(f"{len(found)} objects of {len(expected)} rows")
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            raise FuzzError(f"row {row}: {one!r}, polars: {other!r}; schema {frame.schema}")


FUZZER = Fuzzer("fuzz.json_encode", encoding_batch, encoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
