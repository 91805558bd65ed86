"""The format contract: bytes <-> columns, whole batches at a time; bad rows come back beside the good ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from headrace.connect.row_check import EncodeCheck, RowCheck
from headrace.core.config import Config
from headrace.core.types import Schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoder made of n messages.

    rows      the good rows in message order, with exactly the schema's columns and polars types
    good      int64[rows.height]: message index of each good row, strictly growing; None when all n are good
    bad       int64[b]: message indices of the bad ones, strictly growing
    reasons   b texts: why each is bad
    skipped   number of tombstones, which are neither good nor bad

    rows.height + len(bad) + skipped == n, always.
    """

    rows: pl.DataFrame
    good: npt.NDArray[np.int64] | None
    bad: npt.NDArray[np.int64]
    reasons: tuple[str, ...]
    skipped: int = 0


class Decoder(Protocol):
    """Bytes to rows of one schema."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decodes a whole batch. Never raises for what a message holds: bad messages are returned.

        `values`: Arrow binary, large_binary or binary_view; NULL is a tombstone.
        """
        ...


class Encoder(Protocol):
    """Rows to bytes."""

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """One message a row, in order: Arrow large_string, large_binary or a view of them, without NULLs.

        `rows` holds the visible columns of the schema; hidden columns are left out.
        """
        ...

    def file_header(self) -> bytes:
        """What a file of such messages begins with (CSV column names); mostly empty."""
        ...


class FormatConfig(Config):
    """The frozen half of a format; fields are its options."""

    file_only: ClassVar[bool] = False
    """Whether the format is one of whole files, not of messages: only connectors of files take it."""

    @abstractmethod
    def check_source(self, schema: Schema) -> list[str]:
        """What is wrong with reading this schema in this format, as messages."""

    @abstractmethod
    def check_sink(self, schema: Schema) -> list[str]:
        """What is wrong with writing this schema in this format, as messages."""

    @abstractmethod
    def open_decoder(self, schema: Schema) -> Decoder:
        """The live half for reading."""

    @abstractmethod
    def open_encoder(self, schema: Schema) -> Encoder:
        """The live half for writing."""

    def open_check(self, schema: Schema, node: str) -> RowCheck | None:
        """Refuses rows of sink `node` that the encoder could not write; None: it writes every row of the schema.

        As it stands, rows are encoded, which is as dear as it is right: a format that knows what it refuses says so.
        """
        return EncodeCheck(self.open_encoder(schema).encode, schema.names)
