"""Fuzzes the kernel that decodes CSV: `PYTHONPATH=tests python -m fuzz.csv_decode --seconds 60 --seed 1`."""

from __future__ import annotations

import sys
from functools import partial
from random import Random

from fuzz.command import Fuzzer, command
from fuzz.decoding import Decoding, decoding_batch, decoding_verdict
from fuzz.generators.csv_lines import Lines, random_dialect
from fuzz.generators.schemas import random_schema
from headrace.core.types import Schema
from headrace.formats.csv.line import ValueReader
from headrace.kernels.decode.csv_decode import csv_kernel


def open_decoding(chance: Random) -> Decoding | None:
    """A random schema, dialect and order of columns; None where the kernel does not take it."""
    schema = random_schema(chance, nested=False)
    dialect, is_plain = random_dialect(chance)
    columns = list(schema.names) if chance.random() < 0.6 else _columns(chance, schema)
    kernel = csv_kernel(schema, columns, delimiter=dialect.delimiter, quote=dialect.quote, null=dialect.null)
    if kernel is None:
        return None
    is_clean = is_plain and all(item.nullable or item.name in columns for item in schema)
    reader, messages = ValueReader(schema, dialect, columns), Lines(schema, dialect, columns)
    return Decoding(f"{schema} as {columns} in {dialect}", schema, kernel, reader, messages, is_clean)


def _columns(chance: Random, schema: Schema) -> list[str]:
    """The schema's in another order, without some that may be NULL or, seldom, may not, with some that are ignored."""
    lost = chance.choice((0.0, 0.0, 0.0, 0.2))
    names = [item.name for item in schema if chance.random() >= (0.2 if item.nullable else lost)]
    names += [f"ignored{number}" for number in range(chance.randrange(0 if names else 1, 3))]
    chance.shuffle(names)
    return names


FUZZER = Fuzzer("fuzz.csv_decode", partial(decoding_batch, open_decoding), decoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
