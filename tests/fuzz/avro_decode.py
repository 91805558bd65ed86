"""Fuzzes the kernel that decodes Avro: `PYTHONPATH=tests python -m fuzz.avro_decode --seconds 60 --seed 1`.

Random writers' schemas, read to the columns of themselves or of what they have become, with and without a reader's
schema.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from random import Random

from fuzz.command import Fuzzer, command
from fuzz.decoding import Decoding, decoding_batch, decoding_verdict
from fuzz.generators.avro_messages import Messages
from fuzz.generators.avro_schemas import Schemas
from headrace.core.errors import UserError
from headrace.core.types import Field, Schema
from headrace.formats.avro.columns import columns_of
from headrace.formats.avro.resolve import Program, resolve
from headrace.formats.avro.rows import RowReader
from headrace.formats.avro.schema import parse_schema
from headrace.kernels.decode.avro_decode import avro_kernel
from headrace.kernels.decode.avro_program import Op

_CHANGES = (0.0, 0.0, 0.1, 0.4)
"""Shares of types in which a reader's schema differs."""


def open_decoding(chance: Random) -> Decoding | None:
    """A random pair of schemas; None where the reader's cannot be read."""
    schemas = Schemas(chance)
    written = schemas.record()
    reading = schemas.evolved(written, chance.choice(_CHANGES))
    writer, reader = parse_schema(json.dumps(written)), parse_schema(json.dumps(reading))
    columns = Schema(tuple(_loosened(chance, item) for item in columns_of(reader)))
    try:
        program = resolve(writer, columns, reader=reader if chance.random() < 0.6 else None)
    except UserError:
        return None
    kernel = avro_kernel(columns, program.code)
    if kernel is None:
        return None
    text = f"writer {json.dumps(written)}, reader {json.dumps(reading)}, columns {columns}"
    return Decoding(text, columns, kernel, RowReader(program, columns), Messages(writer), is_clean=_is_clean(program))


def _loosened(chance: Random, item: Field) -> Field:
    return Field(item.name, item.type, nullable=item.nullable or chance.random() < 0.5)


def _is_clean(program: Program) -> bool:
    """Whether the kernel is meant to be sure of all messages that fit the writer's schema."""
    code = program.code
    rare = {Op.BAD, Op.TEXT, Op.DECIMAL, Op.STRING, Op.SCALED}
    refuses_null = any(one.op is Op.NULLABLE and one.second >= 0 for one in code.instructions)
    lacks_symbols = any(length < 0 for _, length in code.symbols)
    return not refuses_null and not lacks_symbols and not any(one.op in rare for one in code.instructions)


FUZZER = Fuzzer("fuzz.avro_decode", partial(decoding_batch, open_decoding), decoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
