"""Decodes Avro messages of one writer's schema with a kernel; the row reader reads the messages in doubt."""

from __future__ import annotations

from headrace.core.types import Schema
from headrace.formats.avro.resolve import Program
from headrace.formats.avro.rows import RowReader
from headrace.formats.doubtful_rows import MessageDecoder
from headrace.kernels.decode.avro_decode import avro_kernel


def avro_decoder(columns: Schema, program: Program, *, kernels: bool = True) -> MessageDecoder:
    """A decoder of messages of one program. Without `kernels` the row reader reads all of them."""
    return MessageDecoder(columns, avro_kernel(columns, program.code) if kernels else None, RowReader(program, columns))
