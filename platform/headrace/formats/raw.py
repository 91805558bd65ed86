"""The raw format: the only column of the schema contains the message's bytes unchanged."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field as Option

from headrace.connect.format import NO_ENGINE, Decoded, Encoder, FormatConfig, FormatContext, Messages
from headrace.connect.registry import Format
from headrace.connect.row_check import RowCheck
from headrace.core.types import Field, Primitive, Schema
from headrace.formats.messages import assemble, live_messages, take

_TYPES = (Primitive.STRING, Primitive.BINARY)
_INTEGERS = {Primitive.INT32: 4, Primitive.INT64: 8}
"""Type -> bytes of a key, as Kafka's own serializers write it."""


class RawFormat(FormatConfig):
    """The options of `format: raw`."""

    tombstones: Literal["skip", "keep"] = Option(
        default="skip", description="keep: a message without a value is a row, with NULL"
    )

    def check_source(self, schema: Schema) -> list[str]:
        """Requires one column of type string or binary, nullable if tombstones are kept."""
        problems = _check(schema)
        if not problems and self.tombstones == "keep" and not schema.fields[0].nullable:
            problems = ["tombstones: keep makes rows with NULL: leave out `not null`"]
        return problems

    def check_sink(self, schema: Schema) -> list[str]:
        """Requires one column of type string or binary."""
        return _check(schema)

    def check_key(self, schema: Schema) -> list[str]:
        """Requires one column of type string, binary, int32 or int64."""
        if len(schema) == 1 and schema.fields[0].type in (*_TYPES, *_INTEGERS):
            return []
        return [f"format raw takes one key column, of type string, binary, int32 or int64; here: {schema}"]

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RawDecoder | RawIntegers:
        """A decoder that keeps messages unchanged; a string must be UTF-8. An integer key has its bytes, the highest
        first."""
        if context.side == "key" and schema.fields[0].type in _INTEGERS:
            return RawIntegers(schema.fields[0])
        return RawDecoder(_only(schema), keep_tombstones=self.tombstones == "keep")

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """An encoder that writes the column unchanged; NULL becomes an empty message."""
        if context.side == "key" and schema.fields[0].type in _INTEGERS:
            return RawIntegers(schema.fields[0])
        return RawEncoder(_only(schema).name)

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Returns None: every value can be written."""
        return None


class RawDecoder:
    """Decodes messages into one column."""

    def __init__(self, field: Field, *, keep_tombstones: bool = False) -> None:
        self._field = field
        self._keep_tombstones = keep_tombstones

    def decode(self, messages: Messages) -> Decoded:
        """See `Decoder`."""
        values = messages.values
        live, index = (values, None) if self._keep_tombstones else live_messages(values)
        column = pl.Series(pl.from_arrow(live)).cast(pl.Binary).alias(self._field.name)
        if self._field.type is Primitive.BINARY:
            return assemble(len(values), index, column.to_frame(), None, {})
        try:
            return assemble(len(values), index, column.cast(pl.String).to_frame(), None, {})
        except pl.exceptions.ComputeError:
            bad = _not_utf8(live)
        good = np.setdiff1d(np.arange(len(live)), np.fromiter(bad, dtype=np.int64))
        rows = column.gather(good).cast(pl.String).to_frame()
        return assemble(len(values), index, rows, good, bad)


class RawEncoder:
    """Encodes one column."""

    def __init__(self, name: str) -> None:
        self._name = name

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`."""
        column = rows[self._name]
        empty = "" if column.dtype == pl.String else b""
        return column.fill_null(pl.lit(empty)).to_arrow()

    def file_header(self) -> bytes:
        """Empty: there are no column names."""
        return b""


class RawIntegers:
    """Keys of one integer: its bytes, the highest first."""

    def __init__(self, field: Field) -> None:
        assert isinstance(field.type, Primitive), "an integer"
        self._name, self._bytes = field.name, _INTEGERS[field.type]

    def decode(self, messages: Messages) -> Decoded:
        """See `Decoder`."""
        live, index = live_messages(messages.values)
        sizes = pl.Series(pl.from_arrow(live)).cast(pl.Binary).bin.size().to_numpy()
        wrong = np.flatnonzero(sizes != self._bytes)
        bad = {row: f"{sizes[row]} bytes, and an integer has {self._bytes}" for row in wrong.tolist()}
        good = np.flatnonzero(sizes == self._bytes) if bad else None
        kept = (live if good is None else take(live, good)).cast(pa.binary(self._bytes))
        numbers = np.frombuffer(kept.buffers()[1], f">i{self._bytes}", len(kept), kept.offset * self._bytes)
        rows = pl.DataFrame({self._name: numbers.astype(f"i{self._bytes}")})
        return assemble(len(messages), index, rows, good, bad)

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`. NULL becomes 0: whoever writes the keys leaves it out."""
        numbers = rows[self._name].fill_null(0).to_numpy().astype(f">i{self._bytes}")
        fixed = pa.Array.from_buffers(pa.binary(self._bytes), len(numbers), [None, pa.py_buffer(numbers.tobytes())])
        return fixed.cast(pa.large_binary())

    def file_header(self) -> bytes:
        """Empty: there are no column names."""
        return b""


def _check(schema: Schema) -> list[str]:
    if len(schema) == 1 and schema.fields[0].type in _TYPES:
        return []
    return [f"format raw takes exactly one column, of type string or binary; here: {schema}"]


def _only(schema: Schema) -> Field:
    assert not _check(schema), "checked before anything runs"
    return schema.fields[0]


def _not_utf8(live: pa.Array) -> dict[int, str]:
    bad = {}
    for index, raw in enumerate(live.to_pylist()):
        try:
            if raw is not None:
                raw.decode()
        except UnicodeDecodeError as error:
            bad[index] = f"not UTF-8: byte 0x{raw[error.start]:02x} at {error.start}"
    return bad


FORMAT = Format(
    "raw",
    "the message as it is, in one string or binary column",
    RawFormat,
    example="format: {raw: {tombstones: keep}}\nschema: {value: string}\n",
)
