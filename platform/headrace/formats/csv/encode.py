"""Encodes rows as CSV lines, whole columns at a time."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.core.types import Schema
from headrace.formats.csv.line import Dialect
from headrace.formats.text_columns import format_timestamps


class CsvEncoder:
    """Encodes the columns of one schema, in its order."""

    def __init__(self, schema: Schema, dialect: Dialect, *, header: bool) -> None:
        self._names = schema.names
        self._dialect = dialect
        self._header = header
        specials = "".join(f"\\x{ord(character):02x}" for character in (dialect.delimiter, dialect.quote))
        self._specials = f"[\r\n{specials}]"

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`. A message has no line break at its end."""
        fields = [self._quoted(_as_text(rows[name])) for name in self._names]
        lines = pl.select(pl.concat_str(fields, separator=self._dialect.delimiter))
        return lines.to_series().to_arrow()

    def file_header(self) -> bytes:
        """The column names and a newline, if `header` is set."""
        if not self._header:
            return b""
        names = [self._quoted(pl.Series([name])).item() for name in self._names]
        return (self._dialect.delimiter.join(names) + "\n").encode()

    def _quoted(self, texts: pl.Series) -> pl.Series:
        """Texts, quoted where necessary, and NULL as its text."""
        quote, null = self._dialect.quote, self._dialect.null
        special = texts.str.contains(self._specials) | (texts == null)
        if len(self._names) == 1:
            # a line of blanks is none in a file
            special |= texts.str.strip_chars() == ""
        if special.any():
            doubled = texts.str.replace_all(quote, quote * 2, literal=True)
            texts = texts.zip_with(~special, quote + doubled + quote)
        return texts.fill_null(pl.lit(null)) if texts.null_count() else texts


def _as_text(column: pl.Series) -> pl.Series:
    if isinstance(column.dtype, pl.Datetime):
        return format_timestamps(column)
    if isinstance(column.dtype, pl.Binary):
        return column.bin.encode("base64")
    return column.cast(pl.String)
