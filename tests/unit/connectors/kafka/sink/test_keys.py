"""Record keys tell groups apart: two rows have the same key exactly if their key columns are equal."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.types import Schema, schema_of
from headrace_connectors.kafka.sink.keys import key_check, key_encoder

NAN, INF = float("nan"), float("inf")


def float32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


POOLS: dict[str, list[Any]] = {
    "float64": [NAN, -NAN, INF, -INF, 0.0, -0.0, 1.0, 0.1, 0.1 + 2**-56, 1e300, 5e-324, 2.0**53, 2.0**53 + 2, None],
    "float32": [NAN, INF, -INF, 0.0, -0.0, *(float32(0x3DCCCCCD + n) for n in range(3)), float32(1), None],
    "string": ["", "NaN", "null", "Infinity", "\0", "a\0", "é", "e\u0301", '"', "\\", None],
    "binary": [b"", b"\0", b"\xff", b"\xff\xfe", b"null", b"AA==", None],
    "bool": [True, False, None],
    "int64": [0, 1, -1, 2**63 - 1, 2**63 - 2, -(2**63), None],
    "decimal(20,2)": [Decimal("0.00"), Decimal("0.10"), Decimal("-0.10"), Decimal("123456789012345678.01"), None],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None],
    "timestamp": [datetime(2024, 1, 1, 0, 0, 0, us, tzinfo=UTC) for us in (0, 1, 10, 1000, 100_000)] + [None],
    "[float64]": [[], [0.0], [-0.0], [None], [0.0, 1.0], [1.0, 0.0], None],
    "[string]": [[], [""], [None], ["a", "b"], ["a,b"], ['a","b'], None],
    "{f: float64, s: string}": [{"f": f, "s": s} for f in (0.0, -0.0, None) for s in ("", None)] + [None],
}


def canonical(value: Any) -> Any:
    """Values of one group are equal: NaN equals NaN, and 0.0 equals -0.0."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value
        case list():
            return tuple(map(canonical, value))
        case dict():
            return tuple((name, canonical(inner)) for name, inner in value.items())
        case _:
            return value


@st.composite
def keyed(draw: st.DrawFn) -> tuple[Schema, list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(st.sampled_from(POOLS[name]) for name in types)), min_size=1, max_size=30))
    return schema_of({f"c{number}": name for number, name in enumerate(types)}), rows


@given(keyed())
def test_two_groups_never_share_a_key_and_a_group_has_one(drawn: tuple[Schema, list[tuple[Any, ...]]]) -> None:
    schema, rows = drawn
    frame = pl.DataFrame(rows, schema.polars(), orient="row")
    keys = key_encoder(schema.names, schema)(frame).to_list()
    groups = [canonical(list(row)) for row in rows]
    assert len(set(zip(groups, keys, strict=True))) == len(set(groups)) == len(set(keys))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_json_has_no_number_for_is_a_text(dtype: str) -> None:
    schema = schema_of({"f": dtype, "g": dtype})
    rows = pl.DataFrame({"f": [NAN, INF, 1.5, -0.0], "g": [1.5, -INF, None, NAN]}, schema.polars())
    assert key_encoder(("f", "g"), schema)(rows).to_list() == [
        b'{"f":"NaN","g":1.5}',
        b'{"f":"Infinity","g":"-Infinity"}',
        b'{"f":1.5,"g":null}',
        b'{"f":0.0,"g":"NaN"}',
    ]


@pytest.mark.parametrize(("dtype", "value"), [("[float64]", [1.0, NAN]), ("{f: float64}", {"f": INF})])
def test_inside_of_lists_and_structs_it_is_refused(dtype: str, value: object) -> None:
    schema = schema_of({"v": dtype, "n": "int64"})
    rows = pl.DataFrame([[None, 1], [value, 2]], schema.polars(), orient="row")
    refused = key_check(("v",), schema).refused(rows)
    assert list(refused) == [1]
    assert refused[1].why.startswith("column v of the key holds NaN")
    assert refused[1].remedy
