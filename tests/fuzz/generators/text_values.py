"""Random values that formats write as text: timestamps, dates, base64. `plain`, `edge` and `broken` ones."""

from __future__ import annotations

import base64
import datetime as dt
from random import Random

from headrace.core.types import MICROSECONDS, Timestamp
from headrace.formats.text_values import INT64_MAX

_DAYS = (dt.date.max - dt.date.min).days
_EDGE_DATES = (
    *("0001-01-01", "9999-12-31", "1969-12-31", "1970-01-01", "2000-02-29", "2024-02-29", "1900-02-28", "0004-02-29"),
    *("0000-01-01", "2023-02-29", "1900-02-29", "2100-02-29", "2024-04-31", "2024-00-10", "2024-13-01", "2024-01-00"),
    *("2024-01-32", "2024-1-01", "24-01-01", "2024/01/01", "2024-01-01 ", "-024-01-01", "+024-01-01"),
    "2024-01-0\uff11",
    *("", "2024", "20240101", "2024-01-011", "2024-01:01", "2024:01-01", "2024-01-0a", "null", "\u0662024-01-01"),
)
_EDGE_TIMES = (
    *("00:00:00", "23:59:59", "24:00:00", "23:60:00", "23:59:60", "23:59:61", "1:00:00", "00:00", "00:00:0", "000000"),
    *("00.00.00", "00:00:00:", "-1:00:00", "00:-1:00", "0a:00:00", "00:0 :00", "99:99:99", "00:00:00,5", "12:34:5/"),
)
_FRACTIONS_RIGHT, _ZONES_RIGHT = 9, 9
_FRACTIONS = (
    *("", ".0", ".5", ".123", ".123456", ".1234567", ".999999999", ".000000001", ".12345678"),
    *(".", ".1234567890", ".1a", ",5", "..5", ".-5", ".5.5"),
)
_ZONES = (
    *("", "Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+05:30", "-08:00"),
    *("+24:00", "+00:60", "+0530", "+05", "Z ", "UTC", "+05:3", "+05:300", "\u221205:30", "ZZ", "+5:30", "+-5:30", ":"),
    *("*05:30", "+05-30", "+0a:30", "+05:3a", "Z+00:00", " Z", "05:30", "_", "\u200b"),
)
_BASE64_LETTERS = "AZaz09+/AQgw"
_BROKEN_BASE64 = (
    *("A", "AA", "AAA", "AAA==", "AAAA=", "AAAA==", "AAAA====", "=", "==", "====", "A===", "=AAA", "AA=A", "A=AA"),
    "AB==",
    *("AAB=", "AA==AAAA", "AAA=AAAA", "AA= =", "AAAA ", " AAAA", "AA AA", "AA-_", "AAA\u00e9", "\uff21AAA", "AAA."),
    "AAA@",
    *("AA[A", "AA`A", "AA{A", "A:AA", "AAAAA", "AAAAAA", "A" * 43 + "=", "A" * 42 + "==", "A" * 45, "//8=", "//9="),
    "/x==",
)


def plain_date(chance: Random) -> str:
    """A date of this age."""
    return dt.date.fromordinal(711_858 + chance.randrange(40_000)).isoformat()


def edge_date(chance: Random) -> str:
    """Any date of the calendar, or one that is none."""
    if chance.random() < 0.5:
        return dt.date.fromordinal(1 + chance.randrange(_DAYS)).isoformat()
    return chance.choice(_EDGE_DATES)


def plain_timestamp(chance: Random) -> str:
    """RFC 3339 in UTC, with the digits of a fraction that producers write."""
    second = chance.randrange(86_400)
    digits = chance.choice((0, 3, 6))
    fraction = f".{chance.randrange(10**digits):0{digits}}" if digits else ""
    return f"{plain_date(chance)}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{fraction}Z"


def edge_timestamp(chance: Random) -> str:
    """Any form that RFC 3339 allows, often with one part that it does not."""
    seconds = chance.randrange(86_400)
    parts = [
        dt.date.fromordinal(1 + chance.randrange(_DAYS)).isoformat(),
        chance.choice("Tt "),
        f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        chance.choice(_FRACTIONS[:_FRACTIONS_RIGHT]),
        chance.choice(_ZONES[:_ZONES_RIGHT]),
    ]
    if chance.random() < 0.5:
        at = chance.randrange(len(parts))
        parts[at] = chance.choice((_EDGE_DATES, "_5\t-", _EDGE_TIMES, _FRACTIONS, _ZONES)[at])
    return "".join(parts)


def plain_epoch(chance: Random, dtype: Timestamp) -> str:
    """An integer of the type's unit, of this age."""
    second = chance.randrange(4_000_000_000)
    per_second = 1_000_000 // MICROSECONDS[dtype.unit]
    return str(second * per_second + chance.randrange(per_second))


def edge_epoch(chance: Random, dtype: Timestamp) -> str:
    """An integer of the type's unit near the largest or smallest that 64 bits of microseconds hold."""
    value = INT64_MAX // MICROSECONDS[dtype.unit] + chance.randrange(-2, 3)
    return str(-value if chance.random() < 0.5 else value)


def plain_base64(chance: Random) -> str:
    """Standard base64 of up to 40 bytes, rarely of 300."""
    size = 300 if chance.random() < 0.02 else chance.randrange(41)
    return base64.b64encode(chance.randbytes(size)).decode()


def edge_base64(chance: Random) -> str:
    """Text that is almost base64."""
    if chance.random() < 0.5:
        return chance.choice(_BROKEN_BASE64)
    letters = "".join(chance.choices(_BASE64_LETTERS, k=chance.randrange(24)))
    return letters + "=" * chance.randrange(4)
