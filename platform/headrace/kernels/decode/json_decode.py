"""Decodes JSON messages of one schema to columns: `c/decode/json_decode.c`."""

from __future__ import annotations

import ctypes

import orjson

from headrace.core.types import Schema
from headrace.kernels.decode.columns import ColumnLayout, is_supported
from headrace.kernels.decode.messages import MessageKernel
from headrace.kernels.library import is_loaded, kernel


def json_kernel(schema: Schema) -> MessageKernel | None:
    """The kernel for messages of this schema; None where kernels are off or missing, or do not support the schema."""
    if not is_loaded() or not is_supported(schema):
        return None
    layout = ColumnLayout(schema)
    # the kernel does not compare keys with escapes
    if any(orjson.dumps(name) != b'"' + name.encode() + b'"' for name in layout.names):
        return None
    return MessageKernel(kernel("headrace_json_decode", ctypes.c_int64, ctypes.c_void_p), layout)
