"""The offsets of Arrow's columns of byte strings and texts, as kernels read them."""

from __future__ import annotations

import pyarrow as pa


def offset_bytes(dtype: pa.DataType) -> int:
    """Bytes of an offset of binary, string, large_binary or large_string; 0 for other types."""
    if pa.types.is_large_binary(dtype) or pa.types.is_large_string(dtype):
        return 8
    return 4 if pa.types.is_binary(dtype) or pa.types.is_string(dtype) else 0
