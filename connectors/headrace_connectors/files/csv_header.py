"""Brings the fields of a CSV file with a header line into the order of the schema, as raw text: quotes stay, so
that what the format makes of a field does not depend on where it stood."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Schema

Reorder = Callable[[list[bytes]], list[bytes]]


def split_fields(line: bytes, delimiter: bytes) -> list[bytes]:
    """The raw fields of a CSV line, quotes included; a delimiter inside quotes divides nothing."""
    if b'"' not in line:
        return line.split(delimiter)
    escaped = re.escape(delimiter)
    field = re.compile(rb'(?:"(?:[^"]|"")*"|[^"' + escaped + rb"])*")
    fields, at = [], 0
    while True:
        found = field.match(line, at)
        assert found is not None, "the pattern matches the empty text"
        fields.append(found[0])
        at = found.end()
        if at >= len(line):
            return fields
        if line[at : at + 1] != delimiter:
            # an open quote: the line is broken, and the decoder is to say so
            fields[-1] += line[at:]
            return fields
        at += 1


def unquoted(field: bytes) -> str:
    """A column name of the header."""
    text = field.strip()
    if len(text) >= 2 and text.startswith(b'"') and text.endswith(b'"'):
        text = text[1:-1].replace(b'""', b'"')
    return text.decode("utf-8", "replace")


def reorder_for(path: Path, header: bytes, schema: Schema, delimiter: bytes) -> Reorder | None:
    """How lines under this header become lines in schema order; None where they are already.

    Raises UserError where a column that may not be NULL is not in the file.
    """
    names = [unquoted(field) for field in split_fields(header, delimiter)]
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
    return lambda lines: [_reordered(line, places, len(names), delimiter) for line in lines]


def _reordered(line: bytes, places: Sequence[int | None], count: int, delimiter: bytes) -> bytes:
    fields = split_fields(line, delimiter)
    if len(fields) != count:
        # more fields than any schema order has: such a line is bad whatever it would have held
        return line + delimiter * (len(places) + 1)
    return delimiter.join(b"" if place is None else fields[place] for place in places)
