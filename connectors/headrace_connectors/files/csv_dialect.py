"""Delimiter, quote and NULL text of a CSV file, how they separate the fields of a record, and how its header fits the
schema.

Fields are reordered into the schema's order as raw text. Quotes are kept, so that the format decodes a field the same
in any position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.core.types import Schema
from headrace_connectors.files.file_columns import remark_on_columns

Reorder = Callable[[Sequence[bytes]], list[bytes]]


@dataclass(frozen=True)
class CsvDialect:
    """Delimiter, quote and NULL text of a CSV file."""

    delimiter: bytes = b","
    quote: bytes = b'"'
    null: bytes = b""

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> CsvDialect:
        """The dialect from the format's options."""
        given = {name: str(options[name]).encode() for name in ("delimiter", "quote", "null") if name in options}
        return CsvDialect(**given)

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        """A field that begins with the quote, closed or not, with the text behind it; or one without."""
        quote, delimiter = re.escape(self.quote), re.escape(self.delimiter)
        return re.compile(
            rb"%b[^%b]*+(?:%b%b[^%b]*+)*+(?:%b[^%b]*+)?|[^%b]*+"
            % (quote, quote, quote, quote, quote, quote, delimiter, delimiter)
        )

    def split(self, record: bytes) -> list[bytes]:
        """The raw fields of a record, with quotes; a delimiter inside quotes does not separate fields."""
        if self.quote not in record:
            return record.split(self.delimiter)
        fields, at = [], 0
        while True:
            match = self._field.match(record, at)
            assert match is not None, "the pattern matches the empty text"
            fields.append(match[0])
            at = match.end() + 1
            if at > len(record):
                return fields

    def name(self, field: bytes) -> str:
        """A column name from the header."""
        text = field.strip()
        if len(text) >= 2 and text.startswith(self.quote) and text.endswith(self.quote):
            text = text[1:-1].replace(self.quote * 2, self.quote)
        return text.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class HeaderFit:
    """How a file's header fits the schema. reorder: None if records are in schema order; remark: for users, or None."""

    reorder: Reorder | None = None
    remark: str | None = None


def fit_header(path: Path, header: bytes, schema: Schema, dialect: CsvDialect) -> HeaderFit:
    """Raises UserError if the header has no column of the schema, or lacks one that is not null."""
    names = [dialect.name(field) for field in dialect.split(header)]
    if tuple(names) == schema.names:
        return HeaderFit()
    remark = remark_on_columns(path, names, schema)
    places = [names.index(item.name) if item.name in names else None for item in schema]
    return HeaderFit(lambda records: [_reordered(each, places, len(names), dialect) for each in records], remark)


def _reordered(record: bytes, places: Sequence[int | None], count: int, dialect: CsvDialect) -> bytes:
    fields = dialect.split(record)
    if len(fields) != count:
        # more fields than the schema: the decoder rejects such a record, whatever its content
        return record + dialect.delimiter * (len(places) + 1)
    return dialect.delimiter.join(dialect.null if place is None else fields[place] for place in places)
