"""Decodes JSON messages of one schema to columns: `c/decode/json_decode.c`."""

from __future__ import annotations

import ctypes

import orjson

from headrace.core.types import DataType, ListOf, Schema, Struct
from headrace.kernels.decode.columns import ColumnLayout
from headrace.kernels.decode.messages import MessageKernel
from headrace.kernels.library import is_loaded, kernel

_DEPTH_MAX = 32
"""Most levels of lists and structs in a schema: the kernel calls itself once per level."""


def json_kernel(schema: Schema) -> MessageKernel | None:
    """The kernel for messages of this schema; None where kernels are off or missing, or do not support the schema."""
    if not is_loaded() or not all(_fits(item.type, 1) for item in schema):
        return None
    layout = ColumnLayout(schema)
    # the kernel does not compare keys with escapes
    if any(orjson.dumps(name) != b'"' + name.encode() + b'"' for name in layout.names):
        return None
    return MessageKernel(kernel("headrace_json_decode", ctypes.c_int64, ctypes.c_void_p), layout)


def _fits(dtype: DataType, depth: int) -> bool:
    match dtype:
        case ListOf(inner):
            return depth < _DEPTH_MAX and _fits(inner, depth + 1)
        case Struct(fields):
            return depth < _DEPTH_MAX and bool(fields) and all(_fits(item.type, depth + 1) for item in fields)
        case _:
            return True
