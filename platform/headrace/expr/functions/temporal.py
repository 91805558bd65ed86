"""Times: parts, truncation, differences, and conversions from and to numbers and text. Always in UTC, but for
`timezone`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import available_timezones

import polars as pl
from polars.exceptions import PolarsError

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.time_range import MAX_US, MIN_US
from headrace.core.types import TIMESTAMP, Primitive
from headrace.expr.functions.overload import Function, Kind, Overload, plain
from headrace.expr.terms.elementwise import quotient
from headrace.expr.terms.pattern import literal_text
from headrace.expr.terms.term import Term
from headrace.expr.terms.timestamps import STAMP, in_range, unit_named

# ---- formats ---------------------------------------------------------------------------------------------------------
# Formats of time: times as text, and text as times, by the directives of strftime.
#
# A format is a literal: it is checked once, before any row. One that matches no text is refused, because `strptime`
# with it would fail every row.

_TOKEN = re.compile(r"%(?P<directive>.?)|\s+|[^%\s]+", re.DOTALL)
_FORMAT = {letter: f"%{letter}" for letter in "YmdHMSjaAbBypI%"} | {"f": "%6f"}
_PARSE = {letter: f"%{letter}" for letter in "YmdHMSbBypI%z"} | {"f": "%.f"}
# what chrono reads for a directive, or more: places the fraction of a second, after which chrono reads the whole text
_READ = {
    **dict.fromkeys("bB", r"[A-Za-z]+"),
    "p": r"[A-Za-z]{2}",
    "z": r"\s*[+\u{2212}-]\d{2}[\s:]*\d{2}",
    "%": "%",
    **dict.fromkeys("mdHMSyI", r"\s*\d{1,2}"),
    "Y": r"\s*(?:[+-]\d+|\d{1,4})",
}
# the same in front of digits: chrono leaves none to them that it could read itself
_READ_BEFORE_DIGITS = {
    **dict.fromkeys("mdHMSyI", r"\s*(?:\d{2}|\d\s+)"),
    "Y": r"\s*(?:\d{4}|(?:\d{1,3}|[+-]\d+)\s+)",
}
_NEEDED = ({"Y", "y"}, {"m", "b", "B"}, {"d"})
_CHECKED_MAX = 256
"""Formats of a process that are remembered: a plan compiles each expression several times."""
_SAMPLE = datetime(2023, 11, 24, 13, 45, 26, 123456, UTC)


@dataclass(frozen=True, slots=True)
class _Token:
    """A directive's letter, or other text."""

    text: str
    directive: str = ""


def format_time(term: Term, pattern: Term) -> pl.Expr:
    """`strftime(t, 'format')`."""
    return term.value.dt.to_string(_chrono(_tokens(literal_text(pattern, "the format"), _FORMAT), _FORMAT))


def parse_time(term: Term, pattern: Term) -> pl.Expr:
    """`strptime(text, 'format')`; NULL for text that does not match. Raises ExpressionError for a format that matches
    no text."""
    return _parsed(term.value, _checked(literal_text(pattern, "the format")))


@lru_cache(maxsize=_CHECKED_MAX)
def _checked(text: str) -> Sequence[_Token]:
    tokens = _tokens(text, _PARSE)
    _check(text, {token.directive for token in tokens})
    if not _matches_its_own_text(tokens):
        raise ExpressionError(
            f"the format {text!r} matches no text", remedy="separate its directives, and use each of them once"
        )
    return tokens


def _tokens(text: str, known: dict[str, str]) -> list[_Token]:
    """Raises ExpressionError for an unknown directive."""
    tokens = []
    for match in _TOKEN.finditer(text):
        letter = match["directive"]
        if letter is None:
            tokens.append(_Token(match[0]))
        elif letter in known:
            tokens.append(_Token(match[0], letter))
        else:
            valid = " ".join(f"%{name}" for name in known)
            raise ExpressionError(f"{match[0]!r} is not a directive here", remedy=f"directives: {valid}")
    return tokens


def _chrono(tokens: Sequence[_Token], known: dict[str, str]) -> str:
    return "".join(known[token.directive] if token.directive else token.text for token in tokens)


def _check(text: str, directives: set[str]) -> None:
    if not all(directives & needed for needed in _NEEDED):
        raise ExpressionError(f"the format {text!r} must hold a year, a month and a day", remedy="such as '%Y-%m-%d'")
    if "I" in directives and "p" not in directives:
        raise ExpressionError(
            f"the format {text!r} has hours of 12 (%I) without AM or PM (%p)", remedy="write %H for hours of 24"
        )
    if "p" in directives and not directives & {"I", "H"}:
        raise ExpressionError(f"the format {text!r} has AM or PM (%p) without an hour", remedy="write %I for the hour")


def _matches_its_own_text(tokens: Sequence[_Token]) -> bool:
    """Whether the text of a time in this format is read."""
    sample = pl.Series([_SAMPLE], dtype=pl.Datetime("us", "UTC"))
    written = {**_PARSE, "f": "%6f"}
    try:
        found = pl.select(_parsed(pl.lit(sample).dt.to_string(_chrono(tokens, written)), tokens)).item()
    except pl.exceptions.ComputeError:  # polars refuses the format
        return False
    return found is not None


def _parsed(value: pl.Expr, tokens: Sequence[_Token]) -> pl.Expr:
    directives = [token.directive for token in tokens]
    chrono = _chrono(tokens, _PARSE)
    if "f" in directives:
        place = directives.index("f")
        if place and tokens[place - 1].text.endswith(".") and not tokens[place - 1].directive:
            before = _chrono(tokens[:place], _PARSE).removesuffix(".")
            chrono = before + _chrono(tokens[place:], _PARSE)
        else:
            value = _with_point(value, tokens[:place])
    # chrono parses no time without hour and minute, and no fraction without a second: zeros are appended
    missing = {"%H": not {"H", "I"} & {*directives}, "%M": "M" not in directives}
    missing["%S"] = "f" in directives and "S" not in directives
    for directive in (name for name, is_missing in missing.items() if is_missing):
        chrono, value = f"{chrono} {directive}", pl.concat_str(value, pl.lit(" 00"))
    parsed = value.str.to_datetime(chrono, time_unit="us", strict=False, exact=True)
    if "z" not in directives:
        parsed = parsed.dt.replace_time_zone("UTC")
    return pl.when(in_range(parsed.to_physical())).then(parsed)


def _with_point(value: pl.Expr, before: Sequence[_Token]) -> pl.Expr:
    """Text with a point in front of its fraction, the only form in which chrono reads one of any length; NULL where
    there is no fraction behind `before`."""
    digits = rf"(?s)^({_regex(before)})(\d)"
    return pl.when(value.str.contains(digits)).then(value.str.replace(digits, "${1}.${2}"))


def _regex(tokens: Sequence[_Token]) -> str:
    parts: list[str] = []
    is_before_digits = True
    for token in reversed(tokens):
        letter = token.directive
        if letter:
            parts.append(_READ_BEFORE_DIGITS.get(letter, _READ[letter]) if is_before_digits else _READ[letter])
            is_before_digits = letter in _READ_BEFORE_DIGITS
        elif token.text.isspace():  # chrono reads any blanks, or none, for blanks
            parts.append(r"\s*")
        else:
            parts.append(re.escape(token.text))
            is_before_digits = token.text[0].isdigit()
    return "".join(reversed(parts))


# ---- functions -------------------------------------------------------------------------------------------------------

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
