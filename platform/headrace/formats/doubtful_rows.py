"""Decodes a batch of messages with a kernel; an exact reader in Python reads the messages in doubt, one by one.

Shared by the text formats. Without a kernel the exact reader reads every message. The result does not depend on how
messages are divided into batches.

The rows of the exact reader become columns: their values are staged in plain types and cast once. Times are staged as
integers, float32 as a float64 that the cast rounds once, decimals as `decimal.Decimal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded, Messages
from headrace.core.types import DataType, ListOf, Primitive, Schema, Struct, Timestamp, polars_type
from headrace.formats.messages import Indices, assemble, live_messages, take

Mask = npt.NDArray[np.bool_]


class BadMessageError(Exception):
    """A message does not match the schema; the text is the reason, one short line."""


class RowReader(Protocol):
    """Reads one message exactly."""

    def read(self, raw: bytes) -> list[object]:
        """A value for each column of the schema, in the type of `staging_type`. Raises BadMessageError."""
        ...


class MessageKernel(Protocol):
    """Decodes whole batches, and marks messages in doubt."""

    def decode(self, messages: pa.Array) -> tuple[pl.DataFrame, Mask]:
        """The rows of the decoded messages in order, and the mask of the messages in doubt.

        messages: Arrow binary or large_binary without NULLs
        """
        ...


class MessageDecoder:
    """Decodes messages of one schema."""

    def __init__(self, schema: Schema, kernel: MessageKernel | None, reader: RowReader) -> None:
        self._schema = schema
        self._kernel = kernel
        self._reader = reader

    def decode(self, messages: Messages) -> Decoded:
        """See `Decoder`."""
        values = messages.values
        live, index = live_messages(values)
        frame, doubtful = self._read_sure(live)
        unsure = np.flatnonzero(doubtful)
        if not len(unsure):
            return assemble(len(values), index, frame, None, {})
        read, places, bad = self._read_doubtful(take(live, unsure), unsure)
        both = np.concatenate([np.flatnonzero(~doubtful), places])
        order = np.argsort(both, kind="stable")
        rows = pl.concat([frame, read])[order] if frame.height else read
        return assemble(len(values), index, rows, both[order] if bad else None, bad)

    def _read_sure(self, live: pa.Array) -> tuple[pl.DataFrame, Mask]:
        if self._kernel is None:
            return self._schema.empty(), np.ones(len(live), np.bool_)
        return self._kernel.decode(live)

    def _read_doubtful(self, messages: pa.Array, index: Indices) -> tuple[pl.DataFrame, Indices, dict[int, str]]:
        """Reads the messages at the indices `index` of the batch: good rows, their indices, reasons of bad messages."""
        rows, places, bad = [], [], {}
        for place, raw in zip(index.tolist(), messages.to_pylist(), strict=True):
            try:
                rows.append(self._reader.read(raw))
                places.append(place)
            except BadMessageError as cause:
                bad[place] = str(cause)
        return staged_frame(self._schema, rows), np.array(places, np.int64), bad


def staged_frame(schema: Schema, rows: Sequence[list[object]]) -> pl.DataFrame:
    """Rows of staged values, one for each column of `schema`, as a frame of its types."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    series = []
    for item, values in zip(schema, columns, strict=True):
        staging, final = staging_type(item.type), polars_type(item.type)
        staged = pl.Series(item.name, values, dtype=staging)
        series.append(staged if staging == final else staged.cast(final))
    return pl.DataFrame(series)


def staging_type(dtype: DataType) -> pl.DataType:
    """The polars type in which values of `dtype` are staged."""
    match dtype:
        case Timestamp():
            return pl.Int64()
        case Primitive.DATE:
            return pl.Int32()
        case Primitive.FLOAT32:
            return pl.Float64()
        case ListOf(inner):
            return pl.List(staging_type(inner))
        case Struct(fields):
            return pl.Struct({item.name: staging_type(item.type) for item in fields})
        case _:
            return polars_type(dtype)
