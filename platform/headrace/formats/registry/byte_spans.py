"""Byte strings of a batch as positions in one buffer, to be read by numpy at all of them together. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ByteSpans:
    """n byte strings: the bytes from begin to end (exclusive) of `data`, for each."""

    data: Bytes
    begins: Positions
    ends: Positions

    @staticmethod
    def of(values: pa.Array) -> ByteSpans:
        """Those of a binary or large_binary array without NULLs; shares its memory."""
        assert values.null_count == 0, "NULLs are removed before"
        number = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        _, offsets, data = values.buffers()
        count = len(values)
        if not count:
            return ByteSpans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
        at = np.frombuffer(offsets, number, count + 1, values.offset * np.dtype(number).itemsize).astype(np.int64)
        # an array of empty values may have no buffer
        whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return ByteSpans(whole, at[:-1], at[1:])

    @property
    def lengths(self) -> Positions:
        """Bytes of each."""
        return self.ends - self.begins

    def at(self, index: Positions) -> ByteSpans:
        """Those at `index`."""
        return ByteSpans(self.data, self.begins[index], self.ends[index])

    def heads(self, count: int) -> Bytes:
        """The first `count` bytes of each, as a matrix. Rows of spans that are shorter hold bytes without meaning."""
        last = len(self.data) - count
        if last < 0:
            return np.zeros((len(self.begins), count), np.uint8)
        windows = np.ndarray((last + 1,), f"V{count}", self.data.data, strides=(1,))
        return windows[np.minimum(self.begins, last)].view(np.uint8).reshape(len(self.begins), count)
