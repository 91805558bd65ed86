"""Tells quickly which messages the columnar reading will accept, so that one bad message costs only itself."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

import numpy as np
import orjson
import pyarrow as pa

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.text_columns import Mask
from headrace.formats.text_values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

_Test = Callable[[object], bool]
_NULL = type(None)
_RANGES = {Primitive.INT32: (INT32_MIN, INT32_MAX), Primitive.INT64: (INT64_MIN, INT64_MAX)}
_TYPES: dict[DataType, frozenset[type]] = {
    Primitive.BOOL: frozenset({bool}),
    Primitive.FLOAT32: frozenset({int, float}),
    Primitive.FLOAT64: frozenset({int, float}),
    Primitive.STRING: frozenset({str}),
    Primitive.BINARY: frozenset({str}),
    Primitive.DATE: frozenset({str}),
}


def parses(values: pa.Array) -> Mask:
    """Which messages are JSON."""
    return np.fromiter(map(_is_json, values.to_pylist()), dtype=np.bool_, count=len(values))


def _is_json(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


class Screen:
    """Tests messages of one schema. `integer_times`: timestamp columns that are read as integers."""

    def __init__(self, schema: Schema, integer_times: AbstractSet[str]) -> None:
        fields = [_integer_time(item) if item.name in integer_times else item for item in schema]
        self._types = [(item.name, _allowed(item)) for item in fields if _allowed(item)]
        self._tests = [(item.name, _test(item)) for item in fields if not _allowed(item)]

    def accepts(self, raw: bytes) -> bool:
        """Whether this message can be read with others. A no is final; a yes may still prove wrong there."""
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return False
        if type(parsed) is not dict or b"\n" in raw:
            return False
        get = parsed.get
        for name, allowed in self._types:
            if type(get(name)) not in allowed:
                return False
        for name, test in self._tests:  # noqa: SIM110 - the loop is twice as fast as all()
            if not test(get(name)):
                return False
        return True


def _integer_time(item: Field) -> Field:
    return Field(item.name, Primitive.INT64, item.nullable)


def _allowed(item: Field) -> frozenset[type]:
    """Python types that settle the test of a field; empty where the value matters too."""
    dtype = item.type
    if isinstance(dtype, Timestamp):
        allowed: frozenset[type] = frozenset({str})
    elif isinstance(dtype, Decimal):
        allowed = frozenset({int, float, str})
    else:
        allowed = _TYPES.get(dtype, frozenset())
    return allowed | {_NULL} if allowed and item.nullable else allowed


def _test(item: Field) -> _Test:
    test = _present(item.type)
    nullable = item.nullable
    return lambda value: nullable if value is None else test(value)


def _present(dtype: DataType) -> _Test:
    if isinstance(dtype, ListOf):
        inner = _test(Field("", dtype.inner, dtype.nullable))
        return lambda value: type(value) is list and all(inner(item) for item in value)
    if isinstance(dtype, Struct):
        fields = [(item.name, _test(item)) for item in dtype.fields]
        return lambda value: type(value) is dict and all(test(value.get(name)) for name, test in fields)
    if isinstance(dtype, Primitive) and dtype in _RANGES:
        low, high = _RANGES[dtype]
        return lambda value: type(value) is int and low <= value <= high
    allowed = _allowed(Field("", dtype, nullable=False))
    return lambda value: type(value) in allowed
