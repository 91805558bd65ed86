"""Random pairs of schemas, the writer's and what it has become: our resolution beside fastavro's."""

from __future__ import annotations

import json
import math
from collections import Counter
from random import Random
from typing import Any

import pytest

from fuzz.generators.avro_messages import Messages
from fuzz.generators.avro_schemas import Schemas
from headrace.core.errors import UserError
from headrace.formats.avro.columns import columns_of
from headrace.formats.avro.resolve import resolve
from headrace.formats.avro.rows import RowReader
from headrace.formats.avro.schema import Record, parse_schema
from headrace.formats.doubtful_rows import BadMessageError
from support.oracles.avro_library import Library, entries_once

MESSAGES = 50
"""For each pair: a million of them in the full tier."""
REFUSED_MAX = 0.05


@pytest.mark.parametrize(
    ("seed", "pairs"),
    [(1, 150), *(pytest.param(seed, 2_000, marks=pytest.mark.full) for seed in range(2, 12))],
)
def test_rows_are_those_of_the_library(seed: int, pairs: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(pairs):
        counts += _compare(Random(f"{seed} {number}"))
    assert counts["refused"] < pairs * REFUSED_MAX
    assert counts["rows"] > counts["bad"] > 0


def _compare(chance: Random) -> Counter[str]:
    schemas = Schemas(chance)
    written = schemas.record()
    reading = schemas.evolved(written, chance.choice((0.0, 0.2, 0.5)))
    writer, reader = parse_schema(json.dumps(written)), parse_schema(json.dumps(reading))
    assert isinstance(reader, Record)
    columns = columns_of(reader)
    try:
        program = resolve(writer, columns, reader=reader)
    except UserError:
        return Counter(refused=1)
    ours, library, messages = RowReader(program, columns), Library(written, reading, reader), Messages(writer)
    counts: Counter[str] = Counter()
    for _ in range(MESSAGES):
        message = messages.clean(chance)
        found, expected = _read(ours, message), library.read(message)
        assert _same(found, expected), f"{found} and, of the library, {expected}: {message!r}; {written}; {reading}"
        counts["bad" if found is None else "rows"] += 1
    return counts


def _read(reader: RowReader, message: bytes) -> Any:
    try:
        return [entries_once(value) for value in reader.read(message)]
    except BadMessageError:
        return None


def _same(found: Any, expected: Any) -> bool:
    """Equal, also in type and sign."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(found, dict):
        return list(found) == list(expected) and all(map(_same, found.values(), expected.values()))
    if isinstance(found, float):
        both_nan = math.isnan(found) and math.isnan(expected)
        return both_nan or (found == expected and math.copysign(1, found) == math.copysign(1, expected))
    return bool(found == expected)
