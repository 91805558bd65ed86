"""Packs flags of one byte each to an Arrow bitmap: `c/pack_bits.c`."""

from __future__ import annotations

from ctypes import c_int64, c_void_p

import pyarrow as pa

from headrace.kernels.library import kernel


def packed_bits(flags: int, count: int) -> pa.Buffer:
    """The bitmap of `count` bytes at the address `flags`, each 0 or 1."""
    bits = pa.allocate_buffer((count + 7) // 8)
    kernel("headrace_pack_bits", None, c_void_p, c_int64, c_void_p)(flags, count, bits.address)
    return bits
