"""Decodes Protobuf messages of one type, one by one."""

from __future__ import annotations

from headrace.core.types import Schema
from headrace.formats.doubtful_rows import MessageDecoder
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.rows import RowReader


def protobuf_decoder(columns: Schema, message: MessageType) -> MessageDecoder:
    """A decoder of messages of one type. Raises UserError for columns that do not hold its fields."""
    return MessageDecoder(columns, None, RowReader(columns, message))
