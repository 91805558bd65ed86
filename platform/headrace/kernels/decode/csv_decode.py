"""Decodes lines of CSV to columns: `c/decode/csv_decode.c`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from headrace.core.types import Schema
from headrace.kernels.decode.columns import ColumnLayout
from headrace.kernels.decode.messages import MessageKernel
from headrace.kernels.library import is_loaded, kernel


class _Csv(ctypes.Structure):
    """`csv_t`. ctypes keeps alive with it what its typed pointers lead to."""

    _fields_ = (
        ("delimiter", ctypes.c_int64),
        ("quote", ctypes.c_int64),
        ("null", ctypes.c_char_p),
        ("null_bytes", ctypes.c_int64),
        ("field_count", ctypes.c_int64),
        ("columns", ctypes.POINTER(ctypes.c_int64)),
    )


def csv_kernel(
    schema: Schema, columns: Sequence[str], *, delimiter: str, quote: str, null: str
) -> MessageKernel | None:
    """The kernel for lines with these columns; None where kernels are off or missing, or the dialect is not ASCII.

    columns: the names of a line's fields in order; the last of equal names counts; names not in the schema are skipped
    """
    if not is_loaded() or not (delimiter.isascii() and quote.isascii()):
        return None
    decode = kernel("headrace_csv_decode", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    layout = ColumnLayout(schema)
    index = {name: place for place, name in enumerate(schema.names, layout.top.start)}
    last = {name: place for place, name in enumerate(columns)}
    numbers = [index.get(name, -1) if last[name] == place else -1 for place, name in enumerate(columns)]
    places, text = (ctypes.c_int64 * len(numbers))(*numbers), null.encode()
    csv = _Csv(ord(delimiter), ord(quote), text, len(text), len(columns), places)

    def call(state: int) -> int:
        read: int = decode(state, ctypes.addressof(csv))
        return read

    return MessageKernel(call, layout)
