"""Times: parts, truncation, differences, and conversions from and to numbers and text. Always in UTC, but for
`timezone`."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import available_timezones

import polars as pl
from polars.exceptions import PolarsError

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.time_range import MAX_US, MIN_US
from headrace.core.types import TIMESTAMP, Primitive
from headrace.expr.functions.overload import Function, Kind, Overload, plain
from headrace.expr.functions.time_formats import format_time, parse_time
from headrace.expr.terms.elementwise import quotient
from headrace.expr.terms.pattern import literal_text
from headrace.expr.terms.term import Term
from headrace.expr.terms.timestamps import STAMP, in_range, unit_named

_T = Kind.TIMESTAMP
_SECOND = 1_000_000
_DAY = pl.duration(days=1)


def _int64(build: Callable[[pl.Expr], pl.Expr]) -> Callable[[pl.Expr], pl.Expr]:
    return lambda value: build(value).cast(pl.Int64)


def _micro(value: pl.Expr) -> pl.Expr:
    return value.to_physical()


PARTS: dict[str, tuple[str, Callable[[pl.Expr], pl.Expr]]] = {
    "year": ("the year", _int64(lambda x: x.dt.year())),
    "quarter": ("quarter of the year, 1 to 4", _int64(lambda x: x.dt.quarter())),
    "month": ("month of the year, 1 to 12", _int64(lambda x: x.dt.month())),
    "week": ("ISO week of the year, 1 to 53", _int64(lambda x: x.dt.week())),
    "day": ("day of the month, 1 to 31", _int64(lambda x: x.dt.day())),
    "dayofmonth": ("day", _int64(lambda x: x.dt.day())),
    "dayofweek": ("0 for Sunday to 6 for Saturday", _int64(lambda x: x.dt.weekday() % 7)),
    "isodow": ("1 for Monday to 7 for Sunday", _int64(lambda x: x.dt.weekday())),
    "dayofyear": ("day of the year, 1 to 366", _int64(lambda x: x.dt.ordinal_day())),
    "hour": ("hour of the day, 0 to 23", _int64(lambda x: x.dt.hour())),
    "minute": ("minute of the hour, 0 to 59", _int64(lambda x: x.dt.minute())),
    "second": ("second of the minute, 0 to 59", _int64(lambda x: x.dt.second())),
    "millisecond": ("milliseconds of the minute, 0 to 59999", lambda x: _micro(x) % (60 * _SECOND) // 1000),
    "microsecond": ("microseconds of the minute, 0 to 59999999", lambda x: _micro(x) % (60 * _SECOND)),
}
_PART_ALIASES = {"dow": "dayofweek", "doy": "dayofyear", "milliseconds": "millisecond", "microseconds": "microsecond"}
PART_NAMES = (*PARTS, *_PART_ALIASES, "epoch")

_TRUNCATE = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}
_FIXED = {"microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": 60 * _SECOND, "hour": 3600 * _SECOND}


def part(name: str, value: pl.Expr) -> pl.Expr:
    """`extract(name from value)`: an int64."""
    lower = name.lower()
    found = PARTS.get(_PART_ALIASES.get(lower, lower).removesuffix("s")) or PARTS.get(lower)
    if found is None:
        remedy = did_you_mean(lower, PART_NAMES) or "parts: " + ", ".join(PARTS)
        raise ExpressionError(f"{name!r} is not a part of a time", remedy=remedy)
    return found[1](value)


def epoch(value: pl.Expr) -> pl.Expr:
    """Seconds since 1970, with their fraction: a float64."""
    return quotient(_micro(value).cast(pl.Float64), pl.lit(_SECOND, dtype=pl.Float64), pl.Float64())


def _date_part(unit: Term, term: Term) -> pl.Expr:
    return part(literal_text(unit, "the part"), term.value)


def _truncate(unit: Term, term: Term) -> pl.Expr:
    return term.value.dt.truncate(_TRUNCATE[unit_named(literal_text(unit, "the unit"))])


def _difference(unit: Term, start: Term, end: Term) -> pl.Expr:
    """Number of unit boundaries between the two times."""
    name = unit_named(literal_text(unit, "the unit"))
    low, high = start.value, end.value
    if name in _FIXED:
        size = _FIXED[name]
        return _micro(high) // size - _micro(low) // size
    if name == "day":
        return _day(high) - _day(low)
    if name == "week":
        return _week(high) - _week(low)
    return _month_count(high, name) - _month_count(low, name)


def _day(value: pl.Expr) -> pl.Expr:
    return _micro(value) // (86_400 * _SECOND)


def _week(value: pl.Expr) -> pl.Expr:
    """Weeks from Monday to Sunday since the epoch. 1970-01-01 was a Thursday, hence the offset of 3 days."""
    return (_day(value) + 3) // 7


def _month_count(value: pl.Expr, name: str) -> pl.Expr:
    months = value.dt.year().cast(pl.Int64) * 12 + value.dt.month().cast(pl.Int64) - 1
    return months // {"month": 1, "quarter": 3, "year": 12}[name]


def _of_units(size: int) -> tuple[Callable[[Term], pl.Expr], Callable[[Term], pl.Expr]]:
    """Converts integers of `size` microseconds each to timestamps; the second function is the mask of values out of
    range."""
    low, high = -(-MIN_US // size), MAX_US // size

    def fits(term: Term) -> pl.Expr:
        return term.value.is_between(pl.lit(low, dtype=pl.Int64), pl.lit(high, dtype=pl.Int64))

    def value(term: Term) -> pl.Expr:
        return (pl.when(fits(term)).then(term.value) * size).cast(STAMP)

    return value, lambda term: ~fits(term)


def _from_seconds(term: Term) -> pl.Expr:
    microseconds = (term.value * _SECOND).round(0, mode="half_to_even").cast(pl.Int64, strict=False)
    return pl.when(in_range(microseconds)).then(microseconds).cast(STAMP)


def _lost(build: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
    """A row fails if no argument is NULL and the value is."""

    def fails(*terms: Term) -> pl.Expr:
        mask = build(*terms).is_null()
        for term in terms:
            if term.nullable:
                mask = mask & term.value.is_not_null()
        return mask

    return fails


def _make_date(year: Term, month: Term, day: Term) -> pl.Expr:
    years, months, days = year.value, month.value, day.value
    valid = years.is_between(1, 9999) & months.is_between(1, 12) & days.is_between(1, 31)
    y, m, d = (pl.when(valid).then(item) for item in (years, months, days))
    # polars raises for the whole frame for a day that the month lacks; the first of the month exists
    first = pl.date(y, m, pl.when(valid).then(pl.lit(1, dtype=pl.Int64)))
    made = first.to_physical() + d.cast(pl.Int32) - 1
    return pl.when(d <= first.dt.month_end().dt.day()).then(made).cast(pl.Date)


def _moment_shown(zone: Term, shown: Term) -> pl.Expr:
    """`timezone('zone', t)`: the moment at which clocks of the zone show the time; NULL outside of the years 1 to 9999.

    Readings that the zone's clocks skip or repeat are those of DuckDB (ICU): one that is skipped counts by the UTC
    offset before the skip, one that is repeated is the later moment. The zone's rules are those compiled into polars.
    Raises ExpressionError for an unknown zone.
    """
    name = _known_zone(zone)
    reading = shown.value.dt.replace_time_zone(None)

    def moment(value: pl.Expr) -> pl.Expr:
        there = value.dt.replace_time_zone(name, ambiguous="latest", non_existent="null")
        return there.dt.convert_time_zone("UTC")

    # a reading that clocks skip: as far after the same reading of the day before as if they did not
    found = pl.coalesce(moment(reading), moment(reading - _DAY) + _DAY)
    return pl.when(in_range(found.to_physical())).then(found)


def _known_zone(term: Term) -> str:
    zone = literal_text(term, "the time zone")
    try:
        pl.Series([0], dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    except (PolarsError, ValueError) as error:
        near = did_you_mean(zone, tuple(sorted(available_timezones())))
        raise ExpressionError(f"unknown time zone {zone!r}", remedy=near or "write UTC or Area/City") from error
    return zone


def _part_function(name: str) -> Function:
    describes, build = PARTS[name]
    return Function(name, describes, (Overload((_T,), Primitive.INT64, plain(build)),))


_MS_VALUE, _MS_FAILS = _of_units(1000)
_STRFTIME = (Overload((_T, Kind.TEXT), Primitive.STRING, format_time),)
_TRUNC = (Overload((Kind.TEXT, _T), TIMESTAMP, _truncate),)
_DIFF = (Overload((Kind.TEXT, _T, _T), Primitive.INT64, _difference),)

TEMPORAL: tuple[Function, ...] = (
    *(_part_function(name) for name in PARTS),
    Function(
        "date_part",
        "the named part of a time, as extract(part from x)",
        (Overload((Kind.TEXT, _T), Primitive.INT64, _date_part),),
    ),
    Function("date_trunc", "the start of the hour, day, ISO week, .. that it lies in", _TRUNC),
    Function("datetrunc", "date_trunc", _TRUNC),
    Function("date_diff", "how many starts of the unit lie between two times", _DIFF),
    Function("datediff", "date_diff", _DIFF),
    Function(
        "last_day",
        "the last day of the month",
        (Overload((_T,), Primitive.DATE, plain(lambda x: x.dt.month_end().dt.date())),),
    ),
    Function("epoch", "seconds since 1970, with their fraction", (Overload((_T,), Primitive.FLOAT64, plain(epoch)),)),
    Function(
        "epoch_ms",
        "milliseconds since 1970 of a time, or the time of so many; fails outside the years 1 to 9999",
        (
            Overload((Kind.INT,), TIMESTAMP, _MS_VALUE, fails=_MS_FAILS),
            Overload((_T,), Primitive.INT64, plain(lambda x: _micro(x) // 1000)),
        ),
    ),
    Function("epoch_us", "microseconds since 1970", (Overload((_T,), Primitive.INT64, plain(_micro)),)),
    Function(
        "to_timestamp",
        "the time so many seconds after 1970; fails outside the years 1 to 9999",
        (Overload((Kind.FLOAT,), TIMESTAMP, _from_seconds, fails=_lost(_from_seconds)),),
    ),
    Function(
        "make_date",
        "the date of year, month and day; fails where there is none",
        (Overload((Kind.INT, Kind.INT, Kind.INT), Primitive.DATE, _make_date, fails=_lost(_make_date)),),
    ),
    Function("strftime", "a time as text: %Y %m %d %H %M %S %f (microseconds) %j %a %A %b %B %y %p %I %%", _STRFTIME),
    Function(
        "strptime",
        "text as a time: %Y %m %d %H %M %S %f %b %B %y %p %I %z %%; fails where it does not match",
        (Overload((Kind.STRING, Kind.TEXT), TIMESTAMP, parse_time, fails=_lost(parse_time)),),
    ),
    Function(
        "try_strptime",
        "strptime; NULL where it does not match",
        (Overload((Kind.STRING, Kind.TEXT), TIMESTAMP, parse_time, nullable=True),),
    ),
    Function(
        "timezone",
        "the moment at which clocks of the zone show the time, as `t at time zone 'zone'`",
        (Overload((Kind.TEXT, _T), TIMESTAMP, _moment_shown, fails=_lost(_moment_shown)),),
    ),
)
