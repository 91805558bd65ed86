"""The program by which messages of one Avro schema become columns: `c/decode/avro_program.h`.

Instructions stand in the order in which a message has its bytes. One with a body is followed by it and names the
instruction behind it (`jump`). A program is made once for each writer's schema and then only read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from headrace.kernels.avro_instruction import Instruction


class Op(IntEnum):
    """`enum avro_op`: what an instruction reads, and what it writes to its column. See `Instruction` for the rest."""

    # these read nothing
    NULL = 0
    BAD = 1
    """The row is bad. first: the index of the reason."""
    # these have a body
    CONSTANT = 2
    """The body reads a default instead of the message. first: its place in the pool; count: its bytes."""
    RECORD = 3
    """The body reads the fields in order."""
    BRANCH_OF = 4
    """A struct that has one of the branches of a union: the body reads its value and writes the other branches NULL."""
    UNION = 5
    """Reads the index of a branch. The body is `count` BRANCH instructions, of which one is run."""
    BRANCH = 6
    """One branch of a union."""
    NULLABLE = 7
    """A union of null and one type, which the body reads. first: the index of null; second: that of the reason why null
    makes a row bad, or -1 if the column takes it."""
    ARRAY = 8
    """The body reads one item."""
    # integers; count: 1 if the writer's type is int
    INT32 = 9
    INT64 = 10
    SCALED = 11
    """An int64 that is the integer times `first`."""
    FLOORED = 12
    """An int64 that is the integer divided by 1,000, rounded down."""
    INTEGER_FLOAT32 = 13
    INTEGER_FLOAT64 = 14
    INTEGER_FLOAT32_FLOAT64 = 15
    """A float64 that is rounded to a float32 before."""
    SKIP_INTEGER = 16
    # other values
    BOOL = 17
    FLOAT32 = 18
    FLOAT32_FLOAT64 = 19
    FLOAT64 = 20
    STRING = 21
    BINARY = 22
    SKIP_BINARY = 23
    FIXED = 24
    """count: bytes."""
    SKIP_FIXED = 25
    """count: bytes."""
    ENUM = 26
    """count: symbols; first: the index of the first one. One that the reader does not know has a negative length."""
    DECIMAL = 27
    """count: bytes of a fixed, or -1; first: the digits of the writer's precision; second: digits of the column's scale
    beyond the writer's."""
    UUID = 28
    """The text of a fixed of 16 bytes."""
    DURATION = 29
    """A struct of three int64 from a fixed of 12 bytes."""
    TEXT = 30
    """A value that only the row reader converts: for the kernel the message is in doubt. first: `Text`."""


class Text(IntEnum):
    """How the row reader converts a value."""

    DECIMAL = 0
    """A decimal to a string. count: bytes of a fixed, or -1; second: its scale."""
    BIG_DECIMAL = 1
    """A big-decimal to a string or decimal."""
    VARIABLE_SCALE = 2
    """A record of scale and digits to a string or decimal."""
    ZONED_TIMESTAMP = 3
    """A text to a timestamp."""


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """Instructions with what they refer to.

    instructions  the fields of the row itself, whose columns are those of the layout's first one
    pool          symbols and defaults
    symbols       begin and length in the pool, for each symbol of each enum
    text_factor   all texts of a message together are at most so many times as long as the message; those of the pool
                  do not count
    """

    instructions: tuple[Instruction, ...]
    pool: bytes = b""
    symbols: tuple[tuple[int, int], ...] = ()
    text_factor: int = 1
