"""Avro: messages of one schema to columns and back. docs/formats.md has the rules.

Schemas, resolution, decoder and encoder are imported when one is opened: a command that only reads a pipeline file
needs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from headrace.connect.format import NO_ENGINE, Decoder, Encoder, FormatConfig, FormatContext, Prepared, ReadFile
from headrace.connect.registry import Format
from headrace.core.errors import UserError
from headrace.core.types import Schema

if TYPE_CHECKING:
    from headrace.formats.avro.schema import AvroType

__all__ = ["FORMAT", "AvroFormat"]


class AvroFormat(FormatConfig):
    """Options of `format: avro`."""

    text_lines = False

    schema_file: str = Field(description="Avro schema of the messages, a JSON file; it travels with the pipeline")

    def named_files(self, read: ReadFile) -> Mapping[str, bytes]:
        """The schema."""
        return {self.schema_file: read(self.schema_file)}

    def check_source(self, schema: Schema) -> list[str]:
        """Rejects an empty schema; columns are compared with the Avro schema when the format is prepared."""
        return [] if len(schema) else ["a schema needs at least one column"]

    def check_sink(self, schema: Schema) -> list[str]:
        """Rejects an empty schema; columns are compared with the Avro schema when the format is prepared."""
        return [] if len(schema) else ["there is no column to write"]

    def open_preparation(self, schema: Schema, context: FormatContext) -> _Comparison:
        """Finds columns that do not fit the Avro schema before the first row."""
        return _Comparison(self, schema, context)

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        """A decoder of messages of the Avro schema, read to the columns by name. Raises UserError if they do not
        fit."""
        from headrace.formats.avro.decode import avro_decoder
        from headrace.formats.avro.resolve import resolve

        return avro_decoder(schema, resolve(self._schema(context), schema))

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """An encoder of messages of the Avro schema. Raises UserError if the columns do not fit."""
        from headrace.formats.avro.encode import AvroEncoder

        return AvroEncoder(schema, self._schema(context))

    def _schema(self, context: FormatContext) -> AvroType:
        from headrace.formats.avro.schema import parse_schema

        try:
            return parse_schema(context.files[self.schema_file].decode())
        except UnicodeDecodeError as cause:
            raise UserError(f"{self.schema_file} is not UTF-8: byte {cause.start}") from cause
        except UserError as error:
            raise UserError(f"{self.schema_file}: {error.message}", remedy=error.remedy) from error


class _Comparison:
    """Compares columns with the Avro schema: a `Preparation` that learns nothing."""

    def __init__(self, config: AvroFormat, schema: Schema, context: FormatContext) -> None:
        self._config = config
        self._schema = schema
        self._context = context

    def prepare(self) -> Prepared:
        """Raises UserError with the place of what does not fit."""
        if self._context.end == "source":
            self._config.open_decoder(self._schema, self._context)
        else:
            self._config.open_encoder(self._schema, self._context)
        return {}

    def close(self) -> None:
        """Nothing is open."""


FORMAT = Format("avro", "one Avro record a message", AvroFormat, example="format: {avro: {schema_file: order.avsc}}\n")
