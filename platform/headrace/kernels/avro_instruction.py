"""One instruction of a program for Avro messages: `c/avro_instruction.h`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class Instruction:
    """`instruction_t`: an `Op` of reading (`decode.avro_program`) or a `Put` of writing (`avro_encode`), which say what
    the numbers are.

    column  the index of the column that is filled or read; -1: the value is skipped
    jump    the index of the instruction behind the body; 0 without a body
    """

    op: IntEnum
    column: int = -1
    jump: int = 0
    count: int = 0
    first: int = 0
    second: int = 0
