"""The format contract: bytes <-> columns, whole batches at a time. Bad messages are returned beside the good rows.

    FormatConfig           frozen and validated, from the pipeline file
      .open_preparation()  -> Preparation, beside the coordinator: asks the outside, such as a schema registry, before
                           the first row. Most formats have none
      .open_decoder()      -> Decoder, in a slot: knows its schema, its context and what was prepared; asks nobody
      .open_encoder()      -> Encoder, likewise

A format that was written before there was a context (`open_decoder(schema)`, `decode(values)`) runs on unchanged:
`connect.earlier_formats`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import BaseModel

from headrace.connect.row_check import EncodeCheck, RowCheck
from headrace.core.config import Address, Config, Reach
from headrace.core.errors import ExternalError
from headrace.core.types import Schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa


Side = Literal["value", "key"]
Prepared = Mapping[str, Any]
"""What a preparation learned, in the format's own form: plain JSON values only, without secrets."""
ReadFile = Callable[[str], bytes]
"""Name of a file, as the pipeline has it -> its content. Raises UserError if there is no such file."""
PreparedFormats = Mapping[str, Mapping[Side, Prepared]]
"""Node -> side -> what was learned."""


@dataclass(frozen=True, slots=True)
class FormatContext:
    """The place of a format in its pipeline.

    node       the source or sink; empty: opened without an engine
    end        which of both the node is
    side       whether the messages are the values of records or their keys
    topic      the node's only topic; None: it has several, or none
    prepared   what the format's preparation learned, at this attempt or an earlier one; None: nothing yet. A
               preparation that is opened again sees here what the one before it learned
    files      contents of the files that the format names (`FormatConfig.named_files`)
    """

    node: str = ""
    end: Literal["source", "sink"] = "source"
    side: Side = "value"
    topic: str | None = None
    prepared: Prepared | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


NO_ENGINE = FormatContext()
"""The context of a format that is opened outside of a pipeline."""


class Preparation(Protocol):
    """The part of a format that may ask the outside. One for each node and side; lives where enumerators and committers
    do, never in a slot."""

    def prepare(self) -> Prepared:
        """Returns what decoders and encoders need to know; called once, before the first row.

        Raises UserError for columns that no schema fits, ExternalError if the outside does not answer.
        """
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Messages:
    """The n messages of a batch, undecoded.

    values    Arrow binary, large_binary or binary_view of length n; NULL is a tombstone
    headers   polars Series of list<struct{key: string, value: binary}> of length n, only if the format reads them
              (`FormatConfig.reads_headers`)
    """

    values: pa.Array
    headers: pl.Series | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class UnknownIds:
    """The answer of a decoder that cannot read a batch yet: it names schemas that the decoder does not know.

    The engine offers the same batch again, and none after it, until the decoder returns rows.

    ids   the unknown schemas, in the format's own form
    on    what is waited for, as users see it: `registry http://host:8081, schema 7`; without secrets
    """

    ids: tuple[str, ...]
    on: str

    def error(self, node: str) -> ExternalError:
        """Returns the error of a reader that does not wait."""
        return ExternalError(f"{node} waits for {self.on}", retry=True)


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

    def decode(self, messages: Messages) -> Decoded | UnknownIds:
        """Decodes a whole batch. Never raises for what a message holds: bad messages are returned."""
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

    text_lines: ClassVar[bool] = True
    """Whether a message is a line of text: file connectors accept no messages that may hold a line break."""

    @property
    def reads_headers(self) -> bool:
        """Whether its decoder needs the headers of records."""
        return False

    def named_files(self, read: ReadFile) -> Mapping[str, bytes]:
        """Returns the files that the options name, and those that these name in turn: name -> content. They travel with
        the pipeline. `read` opens files only where the submission is made; elsewhere it has what travelled."""
        return {}

    def meaning(self) -> dict[str, Any]:
        """What rows are a function of, besides messages and columns: the options in their file form, without addresses
        and secrets. What was prepared for a meaning serves for every equal one."""
        return _meaning(self, self.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    @abstractmethod
    def check_source(self, schema: Schema) -> list[str]:
        """Problems of reading this schema in this format, as messages."""

    @abstractmethod
    def check_sink(self, schema: Schema) -> list[str]:
        """Problems of writing this schema in this format, as messages."""

    def check_key(self, schema: Schema) -> list[str]:
        """Problems of a record key with these columns, as messages: of a source's `key_schema`, of a sink's key."""
        return ["this format has no keys: use json or raw"]

    def open_preparation(self, schema: Schema, context: FormatContext) -> Preparation | None:
        """Returns the live half that asks the outside, which asks nothing yet; None: the format needs nothing from
        there."""
        return None

    @abstractmethod
    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        """The live half for reading. A key without bytes is a tombstone, too: the engine reads it as NULLs."""

    @abstractmethod
    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """The live half for writing."""

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Returns a check that rejects rows of a sink that the encoder cannot write; None if it can write every row.

        The default encodes the rows, which is correct and slow. A format that knows which values it rejects overrides
        it.
        """
        return EncodeCheck(self.open_encoder(schema, context).encode, schema.names)


def _meaning(config: BaseModel, form: Mapping[str, Any]) -> dict[str, Any]:
    """The file form without fields that are secret or say how a system is reached, at any depth of models."""
    kept: dict[str, Any] = {}
    for name, info in type(config).model_fields.items():
        key, value = info.serialization_alias or info.alias or name, getattr(config, name)
        extra = info.json_schema_extra
        is_secret = isinstance(extra, dict) and extra.get("secret")
        if key in form and not is_secret and not any(isinstance(m, Address | Reach) for m in info.metadata):
            kept[key] = _meaning(value, form[key]) if isinstance(value, BaseModel) else form[key]
    return kept
