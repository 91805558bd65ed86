"""Times: their text, their range, intervals, and the units that functions accept.

Every timestamp or date that an expression computes lies in the years 1 to 9999; outside of them the row fails. Beyond
that range polars does not raise but panics.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

import polars as pl

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.time_range import MAX_US, MIN_US
from headrace.core.types import TIMESTAMP, Primitive, polars_type
from headrace.expr.terms.term import Interval, Term, bound, combine, once, with_type

STAMP = polars_type(TIMESTAMP)
_DATE_TEXT = r"^\d{4}-\d{2}-\d{2}$"
_STAMP_TEXT = r"^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2})(:\d{2}(?:\.\d{1,9})?)?(?:\s*([Zz]|[+-]\d{2}(?::?\d{2})?))?)?$"
_INTERVAL_PART = re.compile(r"\s*([+-]?\d+)\s*([a-zA-Z]+)\s*")
_LENGTHS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "min": "minute", "h": "hour"}
UNITS = (*_LENGTHS, *_MONTHS)


def unit_named(text: str) -> str:
    """`Hours`, `hour`, `h` -> `hour`. Raises ExpressionError with the nearest name."""
    name = text.strip().lower()
    for candidate in (name, name.removesuffix("s"), _SHORT.get(name, name)):
        if candidate in UNITS:
            return candidate
    remedy = did_you_mean(name, UNITS) or "units: " + ", ".join(UNITS)
    raise ExpressionError(f"{text!r} is not a unit of time", remedy=remedy)


def parse_interval(text: str, unit: str | None) -> Interval:
    """`5` with `minutes`, or `1 hour 30 minutes`."""
    body = f"{text} {unit}" if unit else text
    months, length, place = 0, timedelta(), 0
    while part := _INTERVAL_PART.match(body, place):
        count, name = int(part[1]), unit_named(part[2])
        try:
            months, length = months + count * _MONTHS.get(name, 0), length + count * _LENGTHS.get(name, timedelta())
        except OverflowError as error:
            raise ExpressionError(f"interval {body!r} is too long") from error
        place = part.end()
    if place != len(body) or not body.strip():
        raise ExpressionError(f"{body!r} is not an interval", remedy="write interval '5 minutes' or interval 5 minute")
    if abs(months) > 120_000:
        raise ExpressionError(f"interval {body!r} is too long")
    return Interval(months, length)


def in_range(microseconds: pl.Expr) -> pl.Expr:
    """Whether int64 microseconds are a timestamp in the years 1 to 9999."""
    return microseconds.is_between(pl.lit(MIN_US, dtype=pl.Int64), pl.lit(MAX_US, dtype=pl.Int64))


def shift(term: Term, interval: Interval, sign: int) -> Term:
    """A timestamp or date plus (sign 1) or minus (-1) an interval: a timestamp. Months are added first, clipped to
    month ends."""
    stamp = with_type(term, TIMESTAMP)
    if not interval.months and not interval.length:
        return stamp
    value = bound([stamp], lambda held: _shifted(held.value, interval, sign), TIMESTAMP)
    return combine([stamp], TIMESTAMP, value, fails=value.is_null() & term.value.is_not_null())


def _shifted(value: pl.Expr, interval: Interval, sign: int) -> pl.Expr:
    if interval.months:
        # no month is longer: a time this far from the ends stays in range
        room = abs(interval.months) * 31 * 86_400_000_000
        safe = value.to_physical().is_between(
            pl.lit(MIN_US + room, dtype=pl.Int64), pl.lit(MAX_US - room, dtype=pl.Int64)
        )
        value = pl.when(safe).then(value).dt.offset_by(f"{sign * interval.months}mo")
    microseconds = sign * (interval.length // timedelta(microseconds=1))
    if abs(microseconds) > MAX_US - MIN_US:
        raise ExpressionError("the interval is too long")
    if microseconds:
        moved = value.to_physical() + pl.lit(microseconds, dtype=pl.Int64)
        value = pl.when(in_range(moved)).then(moved).cast(STAMP)
    return value


def shift_days(term: Term, days: Term, sign: int) -> Term:
    """A date plus or minus whole days: a date."""

    def moved(date: Term, number: Term) -> pl.Expr:
        # clipped far beyond any date, so that the sum cannot overflow
        count = number.value.cast(pl.Int64).clip(-10_000_000, 10_000_000)
        return date.value.to_physical().cast(pl.Int64) + sign * count

    def inside(date: Term, number: Term) -> pl.Expr:
        return moved(date, number).is_between(MIN_US // 86_400_000_000, MAX_US // 86_400_000_000)

    def shifted(date: Term, number: Term) -> pl.Expr:
        return pl.when(inside(date, number)).then(moved(date, number)).cast(pl.Int32).cast(pl.Date)

    parts = [term, days]
    return combine(parts, Primitive.DATE, bound(parts, shifted, Primitive.DATE), fails=~inside(term, days))


def parse_timestamp(text: pl.Expr) -> pl.Expr:
    """ISO 8601 text as a timestamp, UTC without a zone; NULL for other text. Digits beyond microseconds are
    truncated."""
    return once([text.str.extract_groups(_STAMP_TEXT)], _stamp_of_groups, STAMP)


def _stamp_of_groups(groups: pl.Expr) -> pl.Expr:
    parts = groups.struct
    zone = parts.field("4").fill_null("+0000").str.replace("(?i)^z$", "+0000")
    clean = pl.concat_str(
        parts.field("1"),
        pl.lit("T"),
        parts.field("2").fill_null("00:00"),
        parts.field("3").fill_null(":00"),
        zone,
    )
    parsed = clean.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", time_unit="us", strict=False)
    return once([parsed], lambda made: pl.when(in_range(made.to_physical())).then(made), STAMP)


def parse_date(text: pl.Expr) -> pl.Expr:
    """`2013-01-31` as a date; NULL for other text."""
    parsed = text.str.to_date("%Y-%m-%d", strict=False)
    return pl.when(text.str.contains(_DATE_TEXT) & (parsed >= pl.lit(date(1, 1, 1)))).then(parsed)


def date_text(value: pl.Expr) -> pl.Expr:
    """`2013-01-01`."""
    return value.dt.to_string("%Y-%m-%d")


def timestamp_text(value: pl.Expr) -> pl.Expr:
    """`2013-01-01 05:00:00`, with fractional digits as needed."""
    return value.dt.to_string("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0{1,6}$", "")
