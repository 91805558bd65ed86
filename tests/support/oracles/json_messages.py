"""What a JSON message must decode to, in plain Python: the row, or that it is bad, one value at a time."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Sequence

import numpy as np

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from support.oracles.formats import Verdict


class BadMessageError(Exception):
    pass


class _Pairs(list[tuple[str, object]]):
    pass


def oracle(raw: bytes, schema: Schema, *, strict: bool = False) -> dict[str, object]:
    """The row of a message in physical values; raises BadMessageError. Written from the rules, one value at a time."""
    try:
        parsed = json.loads(
            raw.decode("utf-8"),
            parse_float=_number,
            parse_int=_number,
            parse_constant=_refuse,
            object_pairs_hook=_Pairs,
        )
        if strict:
            _check(parsed)
    except (UnicodeError, ValueError, RecursionError) as cause:
        raise BadMessageError from cause
    if not isinstance(parsed, _Pairs):
        raise BadMessageError
    return _fields(parsed, schema.fields)


def _number(text: str) -> int | decimal.Decimal:
    try:
        # Python converts no longer ones
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 4_000 else decimal.Decimal(text)
    except decimal.InvalidOperation:  # an exponent beyond 10^18
        digits, _, exponent = text.lower().partition("e")
        zero_or_tiny = decimal.Decimal(digits) == 0 or exponent.startswith("-")
        return decimal.Decimal("0e-9999" if decimal.Decimal(digits) == 0 else "1e-9999" if zero_or_tiny else "1e9999")


def _refuse(_: str) -> object:
    raise BadMessageError


def _check(value: object) -> None:
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, _Pairs):
        for key, inner in value:
            _check(key)
            _check(inner)
    elif isinstance(value, list):
        for inner in value:
            _check(inner)
    elif isinstance(value, decimal.Decimal | int) and math.isinf(_float(value)):
        raise BadMessageError


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _float(value: decimal.Decimal | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _fields(pairs: _Pairs, fields: Sequence[Field]) -> dict[str, object]:
    first: dict[str, object] = {}
    for key, value in pairs:
        first.setdefault(key, value)
    return {item.name: _nullable(first.get(item.name), item.type, item.nullable) for item in fields}


def _nullable(value: object, dtype: DataType, nullable: bool) -> object:
    if value is None:
        if not nullable:
            raise BadMessageError
        return None
    converted = _value(value, dtype)
    if converted is None:
        raise BadMessageError
    return converted


def _value(value: object, dtype: DataType) -> object:  # noqa: PLR0911
    number = isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)
    match dtype:
        case Primitive.BOOL:
            return value if isinstance(value, bool) else None
        case Primitive.INT32 | Primitive.INT64:
            return _integer(value, 32 if dtype is Primitive.INT32 else 64) if number else None
        case Primitive.FLOAT64:
            double = _float(value) if number else math.inf  # type: ignore[arg-type]
            return None if math.isinf(double) else double
        case Primitive.FLOAT32:
            with np.errstate(over="ignore"):
                single = float(np.float32(_float(value))) if number else math.inf  # type: ignore[arg-type]
            return None if math.isinf(single) else single
        case Primitive.STRING:
            return value if isinstance(value, str) and _is_unicode(value) else None
        case Primitive.BINARY:
            try:
                return base64.b64decode(value, validate=True) if isinstance(value, str) else None
            except (binascii.Error, ValueError):
                return None
        case Primitive.DATE:
            return _days(value) if isinstance(value, str) else None
        case Timestamp(unit):
            if isinstance(value, str):
                return _instant(value)
            whole = _integer(value, 128) if number else None
            factor: int = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
            micros = None if whole is None else whole * factor
            return micros if micros is not None and -(2**63) <= micros < 2**63 else None
        case Decimal(precision, scale):
            return _decimal(value, precision, scale)
        case ListOf(inner, nullable):
            if not isinstance(value, list) or isinstance(value, _Pairs):
                return None
            return [_nullable(item, inner, nullable) for item in value]
        case Struct(fields):
            return _fields(value, fields) if isinstance(value, _Pairs) else None


def _integer(value: object, bits: int) -> int | None:
    assert isinstance(value, int | decimal.Decimal)
    if not -(1 << 200) < value < 1 << 200:
        return None
    whole = int(value)
    return whole if whole == value and whole in range(-(1 << bits - 1), 1 << bits - 1) else None


def _decimal(value: object, precision: int, scale: int) -> int | None:
    if isinstance(value, str):
        if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,4})?", value, re.ASCII):
            return None
        value = decimal.Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return None
    with decimal.localcontext(decimal.Context(prec=2000)):
        unscaled = decimal.Decimal(value).scaleb(scale)
        if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10**precision:
            return None
        return int(unscaled)


def _days(value: str) -> int | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        return None
    try:
        return (dt.date.fromisoformat(value) - dt.date(1970, 1, 1)).days
    except ValueError:
        return None


def _instant(value: str) -> int | None:
    match = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):([0-5]\d):([0-5]\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d)?", value, re.ASCII
    )
    days = _days(match[1]) if match else None
    if match is None or days is None or int(match[2]) > 23:
        return None
    seconds = (days * 24 + int(match[2])) * 3600 + int(match[3]) * 60 + int(match[4])
    if match[6] and match[6] not in "Zz":
        if int(match[6][1:3]) > 23:
            return None
        offset = int(match[6][1:3]) * 3600 + int(match[6][4:6]) * 60
        seconds -= offset if match[6][0] == "+" else -offset
    return seconds * 1_000_000 + int(decimal.Decimal(match[5] or 0) * 1_000_000)


def expected(messages: Sequence[bytes | None], schema: Schema, *, strict: bool = False) -> list[Verdict]:
    right: list[Verdict] = []
    for raw in messages:
        try:
            right.append("skipped" if raw is None else oracle(raw, schema, strict=strict))
        except BadMessageError:
            right.append("bad")
    return right
