"""Has the JSON encode kernel write into memory that ends at an unreadable page and holds rubbish before."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p

import polars as pl

from headrace.kernels.json_encode import EncodeState, Status, stream_address
from headrace.kernels.library import kernel
from support.kernels.guarded import Guarded


def guarded_texts(rows: pl.DataFrame, columns: Sequence[str], *, epoch_ms: bool, step_bytes: int) -> list[bytes] | None:
    """The objects that the kernel writes; None with doubt.

    step_bytes: the text grows by so much beyond what is missing, so that small numbers make it full often
    """
    opens, writes, closes = (
        kernel(f"headrace_json_{name}", None if name == "close" else c_int64, c_void_p)
        for name in ("open", "write", "close")
    )
    assert opens is not None, "kernels are compiled"
    assert writes is not None
    assert closes is not None
    capsule = rows.__arrow_c_stream__(None)
    names = b"".join(name.encode() + b"\0" for name in columns)
    state = EncodeState(stream_address(capsule), names, len(columns), epoch_ms, rows.height)
    address = ctypes.addressof(state)
    try:
        if opens(address) != Status.DONE:
            return None
        fields, keys = _rubbish(state.field_bytes), _rubbish(state.key_bytes)
        ends = _rubbish((rows.height + 1) * 8)
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
    return [data[begin:end] for begin, end in zip(places, places[1:], strict=False)]


def _give_text(state: EncodeState, written: bytes, size: int) -> Guarded:
    text = _rubbish(size)
    text.write(written)
    state.text, state.text_bytes_max = text.address, size
    return text


def _rubbish(size: int) -> Guarded:
    memory = Guarded(size)
    memory.write(b"\xa5" * size)
    return memory
