"""The format contract: bytes <-> columns, whole batches at a time. Bad messages are returned beside the good rows."""

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
    """The result of decoding n messages.

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
        """One message per row, in order: Arrow large_string, large_binary or a view of them, without NULLs.

        `rows` holds the visible columns of the schema; hidden columns are not encoded.
        """
        ...

    def file_header(self) -> bytes:
        """The first bytes of a file of such messages (CSV column names); empty for most formats."""
        ...


class FormatConfig(Config):
    """The frozen half of a format; fields are its options."""

    file_only: ClassVar[bool] = False
    """Whether the format describes whole files, not messages: only file connectors accept it."""

    @abstractmethod
    def check_source(self, schema: Schema) -> list[str]:
        """Problems of reading this schema in this format, as messages."""

    @abstractmethod
    def check_sink(self, schema: Schema) -> list[str]:
        """Problems of writing this schema in this format, as messages."""

    @abstractmethod
    def open_decoder(self, schema: Schema) -> Decoder:
        """The live half for reading."""

    @abstractmethod
    def open_encoder(self, schema: Schema) -> Encoder:
        """The live half for writing."""

    def open_check(self, schema: Schema, node: str) -> RowCheck | None:
        """Returns a check that rejects rows of sink `node` that the encoder cannot write; None if it can write every
        row.

        The default encodes the rows, which is correct and slow. A format that knows which values it rejects overrides
        it.
        """
        return EncodeCheck(self.open_encoder(schema).encode, schema.names)
