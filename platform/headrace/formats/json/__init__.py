"""The JSON format: one object per message. docs/formats.md has the rules.

Decoder, encoder and check are imported when one is opened: a command that only reads a pipeline file needs neither
pyarrow nor polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from headrace.connect.format import NO_ENGINE, Encoder, FormatConfig, FormatContext
from headrace.connect.registry import Format
from headrace.connect.row_check import RowCheck
from headrace.core.types import Schema

if TYPE_CHECKING:
    from headrace.formats.doubtful_rows import MessageDecoder

__all__ = ["FORMAT", "JsonFormat"]


class JsonFormat(FormatConfig):
    """Options of `format: json`."""

    timestamps: Literal["rfc3339", "epoch_ms"] = Field(
        default="rfc3339",
        description="form in which timestamps are written: text, or milliseconds since 1970; readers accept both",
    )

    strict: bool = Field(
        default=False,
        description="a text cut inside of a surrogate pair, or a number beyond float64, makes a message bad in any "
        "field, not only in a field of the schema",
    )

    def check_source(self, schema: Schema) -> list[str]:
        """Accepts every type; rejects an empty schema."""
        return [] if len(schema) else ["a schema needs at least one column"]

    def check_sink(self, schema: Schema) -> list[str]:
        """Accepts every type; rejects an empty schema."""
        return [] if len(schema) else ["there is no column to write"]

    def check_key(self, schema: Schema) -> list[str]:
        """Accepts every type; rejects an empty schema."""
        return [] if len(schema) else ["a key needs at least one column"]

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> MessageDecoder:
        """A decoder of objects with the schema's fields; other fields are ignored."""
        from headrace.formats.json.decode import json_decoder

        return json_decoder(schema, strict=self.strict)

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """An encoder of objects with the schema's columns in order. In keys NaN and infinities are texts."""
        if context.side == "key":
            from headrace.formats.json.keys import JsonKeyEncoder

            return JsonKeyEncoder(schema, timestamps=self.timestamps)
        from headrace.formats.json.encode import JsonEncoder

        return JsonEncoder(schema, timestamps=self.timestamps)

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Rejects times beyond the calendar."""
        from headrace.formats.writable_times import times_check

        return times_check(schema)


FORMAT = Format("json", "one JSON object a message", JsonFormat, example="format: {json: {timestamps: epoch_ms}}\n")
