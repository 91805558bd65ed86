"""For tests of formats: random frames of a schema, and what a decoder says of each message."""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from headrace.connect.format import Decoded, Decoder, Messages
from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.doubtful_rows import staged_frame

Verdict = dict[str, object] | str
"""The row of a good message in physical values, or `bad` with its reason, or `skipped`."""

_DAY_0001, _DAY_9999 = -719_162, 2_932_896
_DAY_US = 86_400_000_000


def verdicts(messages: Sequence[bytes | None], decoded: Decoded) -> list[Verdict]:
    """One verdict a message; checks that every message has exactly one."""
    found: list[Verdict] = ["skipped"] * len(messages)
    good = range(len(messages)) if decoded.good is None else decoded.good.tolist()
    for index, row in zip(good, decoded.rows.select(pl.all().to_physical()).to_dicts(), strict=True):
        found[index] = row
    for index, reason in zip(decoded.bad.tolist(), decoded.reasons, strict=True):
        assert reason
        assert len(reason) < 200
        assert found[index] == "skipped"
        found[index] = f"bad: {reason}"
    assert decoded.skipped == sum(item == "skipped" for item in found)
    return found


def decoded_rows(decoder: Decoder, messages: Sequence[bytes | None], size: int) -> list[Verdict]:
    """Verdicts of messages that are decoded `size` at a time."""
    found = []
    for begin in range(0, len(messages), size):
        part = messages[begin : begin + size]
        decoded = decoder.decode(Messages(pa.array(part, type=pa.binary())))
        assert isinstance(decoded, Decoded)
        found += verdicts(part, decoded)
    return found


def frames(schema: Schema, *, rows_max: int = 12, finite: bool = False) -> st.SearchStrategy[pl.DataFrame]:
    """Random frames; times within the years 1 to 9999. `finite`: no NaN and no infinities."""
    row = st.tuples(*[_nullable(item, finite) for item in schema]).map(list)
    return st.lists(row, max_size=rows_max).map(lambda rows: staged_frame(schema, rows))


def _nullable(item: Field, finite: bool) -> st.SearchStrategy[object]:
    values = _values(item.type, finite)
    return st.one_of(st.none(), values) if item.nullable else values


def _values(dtype: DataType, finite: bool) -> st.SearchStrategy[object]:
    match dtype:
        case Primitive():
            return _PRIMITIVES[dtype] if not dtype.startswith("float") else _floats(dtype, finite)
        case Decimal(precision, scale):
            digits = st.integers(0, 10**precision - 1).map(lambda item: tuple(map(int, str(item))))
            return st.tuples(st.sampled_from([0, 1]), digits).map(lambda item: decimal.Decimal((*item, -scale)))
        case Timestamp():
            micros = st.integers(_DAY_0001 * _DAY_US, (_DAY_9999 + 1) * _DAY_US - 1)
            return st.one_of(micros, micros.map(lambda item: item // 1000 * 1000))
        case ListOf(inner, nullable):
            return st.lists(_nullable(Field("", inner, nullable), finite), max_size=3)
        case Struct(fields):
            return st.fixed_dictionaries({item.name: _nullable(item, finite) for item in fields})


def _floats(dtype: Primitive, finite: bool) -> st.SearchStrategy[object]:
    if dtype is Primitive.FLOAT32:
        return st.floats(width=32, allow_nan=not finite, allow_infinity=not finite)
    return st.floats(allow_nan=not finite, allow_infinity=not finite)


_TEXTS = st.one_of(
    st.text(max_size=6), st.sampled_from(["5", "-1.5", "true", "null", "[1]", "{}", "", "NULL", '"', "\\u0041"])
)
_PRIMITIVES: dict[Primitive, st.SearchStrategy[object]] = {
    Primitive.BOOL: st.booleans(),
    Primitive.INT32: st.integers(-(2**31), 2**31 - 1),
    Primitive.INT64: st.integers(-(2**63), 2**63 - 1),
    Primitive.STRING: _TEXTS,
    Primitive.BINARY: st.binary(max_size=6),
    Primitive.DATE: st.integers(_DAY_0001, _DAY_9999),
}
