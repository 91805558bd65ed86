"""Python values as SQL literals, and as the text in a pipeline file."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from headrace.core.errors import UserError

Value = None | bool | int | float | Decimal | str | date | datetime | timedelta
"""The Python values that have a literal."""

_UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
    ("microsecond", timedelta(microseconds=1)),
)


def literal_sql(value: Value) -> str:
    """Returns a value as an SQL literal; a datetime without a zone is UTC. Raises UserError for a value without literal
    form.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return _float_sql(value)
        case Decimal():
            return _decimal_sql(value)
        case str():
            return "'" + str(value).replace("'", "''") + "'"
        case datetime():
            return f"timestamp '{utc_text(value, sep=' ')}'"
        case date():
            return f"date '{value.isoformat()}'"
        case timedelta():
            return _interval_sql(value)
        case _:
            raise UserError(
                f"a {type(value).__name__} has no SQL literal: {value!r}",
                remedy="give None, bool, int, float, Decimal, str, date, datetime or timedelta",
            )


def utc_text(value: datetime, *, sep: str) -> str:
    """Returns a datetime in UTC, without its zone."""
    utc = value if value.tzinfo is None else value.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(sep=sep)


def _float_sql(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return f"cast('{value}' as float64)"


def _decimal_sql(value: Decimal) -> str:
    if not value.is_finite():
        raise UserError(f"a decimal is a number, not {value}", remedy="use a float for NaN and infinities")
    text = format(value, "f")
    digits = text.lstrip("-").partition(".")
    scale = len(digits[2])
    precision = max(len(digits[0].lstrip("0")) + scale, 1)
    if precision > 38:
        raise UserError(f"{value} has {precision} digits; a decimal holds 38", remedy="use a float")
    return f"cast('{text}' as decimal({precision}, {scale}))"


def _interval_sql(value: timedelta) -> str:
    for unit, length in _UNITS:
        if value % length == timedelta(0):
            return f"interval '{value // length} {unit}s'"
    raise AssertionError("a timedelta is a number of microseconds")
