"""Times that clocks of a zone show, as the moments at which they show them: `timezone('Europe/Berlin', t)`.

Readings that the zone's clocks skip or repeat are those of DuckDB (ICU): one that is skipped counts by the UTC offset
before the skip, one that is repeated is the later moment. The zone's rules are those compiled into polars.
"""

from __future__ import annotations

from zoneinfo import available_timezones

import polars as pl
from polars.exceptions import PolarsError

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.expr.terms.pattern import literal_text
from headrace.expr.terms.term import Term
from headrace.expr.terms.timestamps import in_range

_DAY = pl.duration(days=1)


def moment_shown(zone: Term, shown: Term) -> pl.Expr:
    """`timezone('zone', t)`; NULL outside of the years 1 to 9999. Raises ExpressionError for an unknown zone."""
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
