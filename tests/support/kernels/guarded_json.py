"""Has the JSON encode kernel read from memory that ends at an unreadable page, and write into memory of that kind that
holds rubbish before."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from ctypes import c_int64, c_void_p

import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.growing_text import Status
from headrace.kernels.json_encode import EncodeState
from headrace.kernels.library import kernel
from support.kernels.guarded import Guarded, guarded_copy


def guarded_texts(
    rows: pl.DataFrame,
    columns: Sequence[str],
    *,
    epoch_ms: bool = False,
    step_bytes: int = 1,
    guarded_rows: bool = True,
) -> list[bytes] | None:
    """The objects that the kernel writes; None with doubt.

    guarded_rows: whether the rows are copied to guarded memory, too
    step_bytes: the text grows by so much beyond what is missing, so that small numbers make it full often
    """
    opens, writes, closes = (
        kernel(f"headrace_json_{name}", None if name == "close" else c_int64, c_void_p)
        for name in ("open", "write", "close")
    )
    source = GuardedRows(rows) if guarded_rows else rows
    capsule = source.__arrow_c_stream__(None)
    names = b"".join(name.encode() + b"\0" for name in columns)
    state = EncodeState(stream_address(capsule), names, len(columns), epoch_ms, rows.height)
    address = ctypes.addressof(state)
    try:
        if opens(address) != Status.DONE:
            return None
        fields, keys = rubbish(state.field_bytes), rubbish(state.key_bytes)
        ends = rubbish((rows.height + 1) * 8)
        state.fields, state.keys, state.ends = fields.address, keys.address, ends.address
        text = _give_text(state, b"", state.fixed_bytes_max)
        while (status := writes(address)) == Status.FULL:
            written = text.read()[: state.text_bytes]
            text = _give_text(state, written, state.text_bytes_max + state.missing + step_bytes)
    finally:
        closes(address)
    if status != Status.DONE:
        return None
    places = list((c_int64 * (rows.height + 1)).from_address(ends.address))
    assert places[0] == 0
    assert places[-1] == state.text_bytes
    data = text.read()
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


class GuardedRows:
    """A copy of a frame in guarded memory, each buffer of its own."""

    def __init__(self, rows: pl.DataFrame) -> None:
        table = rows.to_arrow(compat_level=pl.CompatLevel.newest())
        batches = [[_guarded_array(column) for column in batch.columns] for batch in table.to_batches()]
        copies = [pa.RecordBatch.from_arrays(columns, schema=table.schema) for columns in batches]
        self._table = pa.Table.from_batches(copies, schema=table.schema)

    def __arrow_c_stream__(self, _: object) -> object:
        return self._table.__arrow_c_stream__(None)


def _guarded_array(column: pa.Array) -> pa.Array:
    children: list[pa.Array] = []
    if pa.types.is_struct(column.type):
        assert column.offset == 0, "polars slices the children instead"
        children = [_guarded_array(column.field(index)) for index in range(column.type.num_fields)]
    elif pa.types.is_large_list(column.type):
        children = [_guarded_array(column.values)]
    own = column.buffers()[: column.type.num_buffers] if children else column.buffers()
    buffers = [_guarded_buffer(buffer) for buffer in own]
    return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count, column.offset, children or None)


def _guarded_buffer(buffer: pa.Buffer | None) -> pa.Buffer | None:
    if buffer is None:
        return None
    memory = guarded_copy(buffer.to_pybytes())
    return pa.foreign_buffer(memory.address, memory.size, memory)


def _give_text(state: EncodeState, written: bytes, size: int) -> Guarded:
    text = rubbish(size)
    text.write(written)
    state.text, state.text_bytes_max = text.address, size
    return text


def rubbish(size: int) -> Guarded:
    """Guarded memory that holds rubbish."""
    memory = Guarded(size)
    memory.write(b"\xa5" * size)
    return memory
