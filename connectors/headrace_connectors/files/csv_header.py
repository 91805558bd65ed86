"""Brings the fields of a CSV file with a header line into the order of the schema, as raw text: quotes stay, so
that what the format makes of a field does not depend on where it stood."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Schema

Reorder = Callable[[list[bytes]], list[bytes]]


@dataclass(frozen=True)
class CsvDialect:
    """How fields are divided and quoted, and how a NULL is written."""

    delimiter: bytes = b","
    quote: bytes = b'"'
    null: bytes = b""

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> CsvDialect:
        """The dialect that the format's options name."""
        given = {name: str(options[name]).encode() for name in ("delimiter", "quote", "null") if name in options}
        return CsvDialect(**given)

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        quote, delimiter = re.escape(self.quote), re.escape(self.delimiter)
        inner = rb"(?:[^" + quote + rb"]|" + quote + quote + rb")*"
        return re.compile(rb"(?:" + quote + inner + quote + rb"|[^" + quote + delimiter + rb"])*")

    def split(self, line: bytes) -> list[bytes]:
        """The raw fields of a line, quotes included; a delimiter inside quotes divides nothing."""
        if self.quote not in line:
            return line.split(self.delimiter)
        fields, at = [], 0
        while True:
            found = self._field.match(line, at)
            assert found is not None, "the pattern matches the empty text"
            fields.append(found[0])
            at = found.end()
            if at >= len(line):
                return fields
            if line[at : at + 1] != self.delimiter:
                # an open quote: the line is broken, and the decoder is to say so
                fields[-1] += line[at:]
                return fields
            at += 1

    def name(self, field: bytes) -> str:
        """A column name of the header."""
        text = field.strip()
        if len(text) >= 2 and text.startswith(self.quote) and text.endswith(self.quote):
            text = text[1:-1].replace(self.quote * 2, self.quote)
        return text.decode("utf-8", "replace")


def reorder_for(path: Path, header: bytes, schema: Schema, dialect: CsvDialect) -> Reorder | None:
    """How lines under this header become lines in schema order; None where they are already.

    Raises UserError where a column that may not be NULL is not in the file.
    """
    names = [dialect.name(field) for field in dialect.split(header)]
    if tuple(names) == schema.names:
        return None
    places: list[int | None] = []
    for item in schema:
        if item.name in names:
            places.append(names.index(item.name))
        elif item.nullable:
            places.append(None)
        else:
            hint = did_you_mean(item.name, names)
            raise UserError(
                f"{path} has no column {item.name!r}, which is not null", remedy=hint or f"it has {', '.join(names)}"
            )
    return lambda lines: [_reordered(line, places, len(names), dialect) for line in lines]


def _reordered(line: bytes, places: Sequence[int | None], count: int, dialect: CsvDialect) -> bytes:
    fields = dialect.split(line)
    if len(fields) != count:
        # more fields than any schema order has: such a line is bad whatever it would have held
        return line + dialect.delimiter * (len(places) + 1)
    return dialect.delimiter.join(dialect.null if place is None else fields[place] for place in places)
