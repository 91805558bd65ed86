"""Decodes JSON messages with a kernel; the row reader reads the messages in doubt."""

from __future__ import annotations

from headrace.core.types import Schema
from headrace.formats.doubtful_rows import MessageDecoder
from headrace.formats.json.rows import RowReader
from headrace.kernels.decode.json_decode import json_kernel


def json_decoder(schema: Schema, *, strict: bool = False, kernels: bool = True) -> MessageDecoder:
    """A decoder of messages of one schema. Without `kernels` the row reader reads all of them."""
    # to the kernel, messages with unreadable values are in doubt
    return MessageDecoder(schema, json_kernel(schema) if kernels else None, RowReader(schema, strict=strict))
