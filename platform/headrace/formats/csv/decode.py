"""Decodes CSV lines with a kernel; the value reader reads the lines in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import Schema
from headrace.formats.csv.line import Dialect, ValueReader
from headrace.formats.doubtful_rows import MessageDecoder
from headrace.kernels.decode.csv_decode import csv_kernel


def csv_decoder(schema: Schema, dialect: Dialect, columns: Sequence[str], *, kernels: bool = True) -> MessageDecoder:
    """A decoder of lines of one schema. Without `kernels` the value reader reads all of them.

    columns: the names of a line's fields
    """
    kernel = None
    if kernels:
        kernel = csv_kernel(schema, columns, delimiter=dialect.delimiter, quote=dialect.quote, null=dialect.null)
    return MessageDecoder(schema, kernel, ValueReader(schema, dialect, columns))
