"""Fuzzes the kernel that writes rows for the exchange: `PYTHONPATH=tests python -m fuzz.arrow_message --seconds 60`.

Random frames of random schemas, and random rows of them: pyarrow has to read what polars gathers.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa

from fuzz.command import Fuzzer, FuzzError, command
from fuzz.generators.rows import random_frame
from fuzz.generators.schemas import random_schema
from headrace.kernels.arrow_message import ArrowMessage, ArrowMessageWriter


def message_batch(chance: Random) -> Counter[str]:
    """One frame, written several times by one writer. Raises FuzzError."""
    frame = random_frame(chance, random_schema(chance)).rechunk()
    flat = [name for name, dtype in frame.schema.items() if not dtype.is_nested()]
    if len(flat) < frame.width and ArrowMessageWriter().write(frame, None) is not None:
        raise FuzzError(f"nested columns were written: {frame.schema}")
    frame = frame.select(flat)
    if frame.is_empty() or not flat:
        return Counter(empty=1)
    writer, counts = ArrowMessageWriter(), Counter(frames=1)
    for _ in range(3):
        order = np.array(chance.sample(range(frame.height), chance.randint(0, frame.height)), np.uint32)
        rows = None if chance.random() < 0.2 else order
        expected = frame if rows is None else frame[pl.Series(rows)]
        _compare(frame, expected, writer.write(frame, rows))
        counts += Counter(messages=1, rows=expected.height)
    return counts


def message_verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where nothing was compared."""
    if not counts["rows"]:
        raise FuzzError("no rows were written")


def _compare(frame: pl.DataFrame, expected: pl.DataFrame, message: ArrowMessage | None) -> None:
    if message is None:
        raise FuzzError(f"nothing was written: {frame.schema}")
    schema = pa.RecordBatchReader.from_stream(frame.clear()).schema
    record = pa.ipc.read_record_batch(pa.py_buffer(bytes(message.data)), schema)
    record.validate(full=True)
    if not (found := pl.DataFrame(record)).equals(expected):
        raise FuzzError(f"written: {found.rows()}, rows: {expected.rows()}, schema {frame.schema}")


FUZZER = Fuzzer("fuzz.arrow_message", message_batch, message_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
