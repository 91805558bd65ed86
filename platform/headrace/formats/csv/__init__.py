"""The CSV format: one line per message, fields in the schema's order. docs/formats.md has the rules.

Decoder, encoder and check are imported when one is opened: a command that only reads a pipeline file needs neither
pyarrow nor polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic

from headrace.connect.format import NO_ENGINE, Encoder, FormatConfig, FormatContext
from headrace.connect.registry import Format
from headrace.connect.row_check import RowCheck
from headrace.core.types import ListOf, Schema, Struct
from headrace.formats.csv.line import Dialect

if TYPE_CHECKING:
    from headrace.formats.doubtful_rows import MessageDecoder

__all__ = ["FORMAT", "CsvFormat"]

_NO_DELIMITER = "+-.\r\n"


class CsvFormat(FormatConfig):
    """Options of `format: csv`."""

    delimiter: str = pydantic.Field(default=",", description="one character between fields")
    quote: str = pydantic.Field(
        default='"',
        description="one character around a field that contains the delimiter, the quote (doubled) or a newline",
    )
    null: str = pydantic.Field(default="", description="the unquoted text of NULL")
    header: bool = pydantic.Field(
        default=False, description="whether files begin with a line of column names; messages never do"
    )
    columns: tuple[str, ...] | None = pydantic.Field(
        default=None,
        description="the fields of a line that is read, if they differ from the schema's columns; others are ignored",
    )

    @pydantic.field_validator("delimiter", "quote")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or value.isalnum() or value in _NO_DELIMITER or not value.isascii():
            raise ValueError(f"{value!r} is not one ASCII character other than a letter, a digit, +, -, . or a newline")
        return value

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> CsvFormat:
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same character")
        if any(character in self.null for character in (self.delimiter, self.quote, "\r", "\n")):
            raise ValueError("null holds a delimiter, a quote or a newline")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ValueError("columns names one twice")
        if self.columns is not None and self.header:
            raise ValueError("columns and header do not go together: a file with a header names its columns itself")
        return self

    def check_source(self, schema: Schema) -> list[str]:
        """Rejects nested types, and required columns that are not among `columns`."""
        problems = _flat(schema)
        if self.columns is not None:
            missing = [item.name for item in schema if not item.nullable and item.name not in self.columns]
            problems += [f'column "{name}" is not null but not among the columns of the file' for name in missing]
        return problems

    def check_sink(self, schema: Schema) -> list[str]:
        """Rejects nested types."""
        return _flat(schema)

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> MessageDecoder:
        """A decoder of lines with the fields `columns`, or the schema's columns."""
        from headrace.formats.csv.decode import csv_decoder

        return csv_decoder(schema, self._dialect, self.columns or schema.names)

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """An encoder of lines with the schema's columns in order."""
        from headrace.formats.csv.encode import CsvEncoder

        return CsvEncoder(schema, self._dialect, header=self.header)

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Rejects times beyond the calendar."""
        from headrace.formats.writable_times import times_check

        return times_check(schema)

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.delimiter, self.quote, self.null)


def _flat(schema: Schema) -> list[str]:
    if not len(schema):
        return ["a schema needs at least one column"]
    nested = [item for item in schema if isinstance(item.type, ListOf | Struct)]
    return [f'column "{item.name}" is {item.type}: CSV has no lists or structs' for item in nested]


FORMAT = Format(
    "csv", "one line of fields a message", CsvFormat, example='format: {csv: {delimiter: ";", "null": NA}}\n'
)
