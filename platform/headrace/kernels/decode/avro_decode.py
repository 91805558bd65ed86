"""Decodes Avro messages of one writer's schema to columns: `c/decode/avro_decode.c`."""

from __future__ import annotations

import ctypes

import numpy as np

from headrace.core.types import Schema
from headrace.kernels.decode.avro_program import AvroProgram
from headrace.kernels.decode.columns import ColumnLayout, is_supported
from headrace.kernels.decode.messages import MessageKernel
from headrace.kernels.library import is_loaded, kernel


class _Program(ctypes.Structure):
    _fields_ = (
        ("instructions", ctypes.c_void_p),
        ("instruction_count", ctypes.c_int64),
        ("symbols", ctypes.c_void_p),
    )


class _Compiled:
    """A program in the memory that the kernel reads: a `MessageProgram`."""

    def __init__(self, program: AvroProgram) -> None:
        rows = [(one.op, one.column, one.jump, one.count, one.first, one.second) for one in program.instructions]
        self._instructions = np.array(rows, np.int64)
        self._symbols = np.array(program.symbols, np.int64)
        self._program = _Program(self._instructions.ctypes.data, len(rows), self._symbols.ctypes.data)
        self.address = ctypes.addressof(self._program)
        self.pool = program.pool
        self.text_factor = program.text_factor


def avro_kernel(columns: Schema, program: AvroProgram) -> MessageKernel | None:
    """The kernel for messages of a program; None where kernels are off or missing, or do not support the columns."""
    if not is_loaded() or not is_supported(columns):
        return None
    call = kernel("headrace_avro_decode", ctypes.c_int64, ctypes.c_void_p)
    return MessageKernel(call, ColumnLayout(columns), _Compiled(program))
