"""Fuzzes the kernel that decodes CSV: `PYTHONPATH=tests python -m fuzz.csv_decode --seconds 60 --seed 1`."""

from __future__ import annotations

import sys
from functools import partial
from random import Random

from fuzz.command import Fuzzer, command
from fuzz.csv_lines import Lines, random_dialect
from fuzz.decoding import Decoding, decoding_batch, decoding_verdict
from fuzz.schemas import random_schema
from headrace.core.types import Schema
from headrace.formats.csv.line import ValueReader
from headrace.kernels.csv_decode import csv_kernel


def open_decoding(chance: Random) -> Decoding | None:
    """A random schema, dialect and order of columns; None where the kernel does not take it."""
    schema = random_schema(chance, nested=False)
    dialect, is_plain = random_dialect(chance)
    columns = list(schema.names) if chance.random() < 0.6 else _columns(chance, schema)
    kernel = csv_kernel(schema, columns, delimiter=dialect.delimiter, quote=dialect.quote, null=dialect.null)
    if kernel is None:
        return None
    messages = Lines(schema, dialect, columns)
    return Decoding(
        f"{schema} as {columns} in {dialect}", schema, kernel, ValueReader(schema, dialect, columns), messages, is_plain
    )


def _columns(chance: Random, schema: Schema) -> list[str]:
    """The schema's in another order, without some that may be NULL, with some that are ignored."""
    names = [item.name for item in schema if not item.nullable or chance.random() < 0.8]
    names += [f"ignored{number}" for number in range(chance.randrange(0 if names else 1, 3))]
    chance.shuffle(names)
    return names


FUZZER = Fuzzer("fuzz.csv_decode", partial(decoding_batch, open_decoding), decoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
