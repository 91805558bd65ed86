"""Parses one value from its text: timestamps, dates, decimals, base64.

The reference: kernels read the same values and must agree with it. Knows nothing of messages.
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import re
from functools import lru_cache

from headrace.core.types import MICROSECONDS, TimestampUnit

_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
FLOAT32_LIMIT = float((1 << 128) - (1 << 103))
"""The smallest magnitude beyond float32: it rounds to infinity."""


def parse_timestamp(text: str) -> int | None:
    """RFC 3339 text (no zone: UTC; fraction floored) to epoch microseconds; None for other text."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    day, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    days = parse_date(day)
    if days is None or int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return None
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    if sign:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            return None
        offset = int(offset_hour) * 3600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    return days * _DAY_US + seconds * 1_000_000 + micros


def scale_timestamp(value: int, unit: TimestampUnit) -> int | None:
    """An integer in `unit` to epoch microseconds; None if it exceeds 64 bits."""
    micros = value * MICROSECONDS[unit]
    return micros if INT64_MIN <= micros <= INT64_MAX else None


@lru_cache(maxsize=4096)
def parse_date(text: str) -> int | None:
    """`YYYY-MM-DD` to days since the epoch; None for other text."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return dt.date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - _EPOCH
    except ValueError:
        return None


def parse_decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    """A decimal literal to its exact value; None for other text or too many digits."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    return fit_decimal(decimal.Decimal(text), precision, scale)


def fit_decimal(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    """The same value with `scale` digits after the point; None if (precision, scale) cannot represent it exactly."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "JSON and CSV decimals are finite"
    kept = "".join(map(str, digits)).rstrip("0")
    if not kept:
        return decimal.Decimal((0, (0,), -scale))
    shift = exponent + len(digits) - len(kept) + scale
    if shift < 0 or len(kept) + shift > precision:
        return None
    return decimal.Decimal((sign, (*map(int, kept), *[0] * shift), -scale))


def parse_base64(text: str) -> bytes | None:
    """Standard base64 with padding to bytes; None for other text."""
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
