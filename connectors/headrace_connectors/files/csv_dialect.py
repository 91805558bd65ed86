"""Delimiter, quote and NULL text of a CSV file, and how they separate the fields of a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


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
