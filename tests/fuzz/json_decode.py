"""Fuzzes the kernel that decodes JSON: `PYTHONPATH=tests python -m fuzz.json_decode --seconds 60 --seed 1`."""

from __future__ import annotations

import sys
from functools import partial
from random import Random

from fuzz.command import Fuzzer, command
from fuzz.decoding import Decoding, decoding_batch, decoding_verdict
from fuzz.generators.json_documents import Documents
from fuzz.generators.schemas import random_schema
from headrace.formats.json.decode import RowReader
from headrace.kernels.decode.json_decode import json_kernel

_STRICT_SHARE = 0.3
"""Of batches; in the others the reader keeps rows that the kernel leaves to it for a field that no column reads."""


def open_decoding(chance: Random) -> Decoding | None:
    """A random schema; None where the kernel does not take it."""
    schema = random_schema(chance)
    kernel = json_kernel(schema)
    if kernel is None:
        return None
    strict = chance.random() < _STRICT_SHARE
    text = f"schema {schema}{', strict' if strict else ''}"
    return Decoding(text, schema, kernel, RowReader(schema, strict=strict), Documents(schema))


FUZZER = Fuzzer("fuzz.json_decode", partial(decoding_batch, open_decoding), decoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
