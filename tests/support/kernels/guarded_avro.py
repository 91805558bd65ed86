"""Has the Avro encode kernel read from memory that ends at an unreadable page, and write into memory of that kind."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_int64, c_void_p
from typing import Any

import polars as pl

from headrace.kernels.avro_encode import FIELD_BYTES, AvroEncodeKernel, AvroWriting, fields_of
from headrace.kernels.growing_text import Status
from headrace.kernels.library import kernel
from support.kernels.guarded import Guarded
from support.kernels.guarded_json import GuardedRows, rubbish


def guarded_messages(
    rows: pl.DataFrame, writing: AvroWriting, *, step_bytes: int = 1, guarded_rows: bool = True
) -> list[bytes] | None:
    """The messages that the kernel writes; None with doubt. See `guarded_json.guarded_texts`."""
    encode = kernel("headrace_avro_encode", c_int64, c_void_p)
    close = kernel("headrace_avro_close", None, c_void_p)
    source = GuardedRows(rows) if guarded_rows else rows
    capsule = source.__arrow_c_stream__(None)
    fields, ends = rubbish(len(fields_of(writing.columns)[0]) * FIELD_BYTES), rubbish((rows.height + 1) * 8)
    opened = AvroEncodeKernel(writing)
    state = opened.state(capsule, rows.height, fields.address)
    state.ends = ends.address
    text = _give_text(state, b"", state.fixed_bytes_max)
    address = ctypes.addressof(state)
    try:
        while (status := encode(address)) == Status.FULL:
            written = text.read()[: state.text_bytes]
            text = _give_text(state, written, state.text_bytes_max + state.missing + step_bytes)
    finally:
        close(address)
    if status != Status.DONE:
        return None
    places = list((c_int64 * (rows.height + 1)).from_address(ends.address))
    data = text.read()
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def _give_text(state: Any, written: bytes, size: int) -> Guarded:
    text = rubbish(size)
    text.write(written)
    state.text, state.text_bytes_max = text.address, size
    return text
