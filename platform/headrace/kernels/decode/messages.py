"""Runs a decoding kernel over a batch of messages: `c/decode/decode.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import offset_bytes
from headrace.kernels.decode.columns import TEXT_BYTES_MAX, ColumnLayout, Columns

DecodeCall = Callable[[int], int]
"""Receives the address of a `decode_t`; returns the next message to read."""


class _Messages(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("offset_bytes", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


class _Table(ctypes.Structure):
    _fields_ = (
        ("columns", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
        ("text_bytes", ctypes.c_int64),
        ("text_bytes_max", ctypes.c_int64),
        ("full", ctypes.c_int64),
    )


class _Decode(ctypes.Structure):
    _fields_ = (
        ("messages", _Messages),
        ("table", _Table),
        ("column_count", ctypes.c_int64),
        ("doubt", ctypes.c_void_p),
        ("message", ctypes.c_int64),
        ("program", ctypes.c_void_p),
    )


class MessageProgram(Protocol):
    """What a kernel runs, for formats whose messages need a program.

    address      of the program; what it leads to lives as long as the object
    pool         lies at the begin of the columns' text
    text_factor  texts of a message are at most so many times as long as it, those in the pool not counted
    """

    @property
    def address(self) -> int:
        """Of the C structure."""
        ...

    @property
    def pool(self) -> bytes:
        """Text that no message has."""
        ...

    @property
    def text_factor(self) -> int:
        """1 or more."""
        ...


class MessageKernel:
    """Decodes messages of one schema. Keeps nothing between batches: threads may share it."""

    def __init__(self, call: DecodeCall, layout: ColumnLayout, program: MessageProgram | None = None) -> None:
        self._call = call
        self._layout = layout
        self._program = program
        self._address = program.address if program else None
        self._pool = program.pool if program else b""
        self._text_factor = program.text_factor if program else 1

    def decode(self, messages: pa.Array) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        """The rows of the messages that the kernel decoded, in order, and the mask of the messages in doubt.

        messages: Arrow binary or large_binary without NULLs. Raises TypeError for a type without their offsets
        """
        count, width = len(messages), offset_bytes(messages.type)
        if not width:
            raise TypeError(f"messages are {messages.type}: kernels read binary and large_binary")
        _, offsets, data = messages.buffers()
        begin, end = _ends(offsets, messages.offset, count, width)
        text_bytes = len(self._pool) + (end - begin) * self._text_factor
        if text_bytes > TEXT_BYTES_MAX and count > 1:
            return self._halves(messages)
        if not count or text_bytes > TEXT_BYTES_MAX:
            return Columns(self._layout, 0, 0).frame(0), np.ones(count, np.bool_)
        columns = Columns(self._layout, count, text_bytes)
        ctypes.memmove(columns.text.address, self._pool, len(self._pool))
        doubt = np.empty(count, np.bool_)
        state = _Decode(
            _Messages(0 if data is None else data.address, offsets.address + messages.offset * width, width, count),
            _Table(columns.table.ctypes.data, columns.text.address, len(self._pool), text_bytes, -1),
            len(columns.table),
            doubt.ctypes.data,
            0,
            self._address,
        )
        while self._call(ctypes.addressof(state)) < count:
            columns.grow(state.table.full)
            state.table.full = -1
        return columns.frame(state.table.text_bytes), doubt

    def _halves(self, messages: pa.Array) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        middle = len(messages) // 2
        first, first_doubt = self.decode(messages.slice(0, middle))
        second, second_doubt = self.decode(messages.slice(middle))
        return pl.concat([first, second]), np.concatenate([first_doubt, second_doubt])


def _ends(offsets: pa.Buffer, offset: int, count: int, width: int) -> tuple[int, int]:
    """Where the first message begins and the last one ends."""
    number = ctypes.c_int32 if width == 4 else ctypes.c_int64
    if not count:
        return 0, 0
    at = offsets.address + offset * width
    return number.from_address(at).value, number.from_address(at + count * width).value
