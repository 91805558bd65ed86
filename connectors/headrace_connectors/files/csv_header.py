"""Compares the header of a CSV file with the schema, and reorders the fields of its records into the schema's order,
as raw text. Quotes are kept, so that the format decodes a field the same in any position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.types import Schema
from headrace_connectors.files.csv_dialect import CsvDialect
from headrace_connectors.files.file_columns import remark_on_columns

Reorder = Callable[[Sequence[bytes]], list[bytes]]


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
