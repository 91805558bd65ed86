"""Aggregation by dictionaries and fractions: slow, plain, and told nothing of panes, limbs or frames."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Value = object
Span = tuple[int, int]


@dataclass(frozen=True)
class Row:
    key: Value
    x: float | None
    i: int | None
    s: str | None
    ts: int
    wm: int
    partition: int
    offset: int

    @property
    def place(self) -> tuple[int, int, int]:
        return self.ts, self.partition, self.offset


def bits(value: Value) -> Value:
    """Something that is equal for equal bits only (one NaN aside)."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    return value


def normal(value: Value) -> Value:
    if isinstance(value, float):
        return math.nan if math.isnan(value) else 0.0 if value == 0 else value
    return value


def rounded(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def root(value: Fraction) -> float:
    """The double nearest to the root: whoever lies within half a step of both neighbours."""
    if value == 0:
        return 0.0
    shift = 2 * ((value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    near = math.ldexp(math.sqrt(rounded(value / Fraction(2) ** shift)), shift // 2)
    while _middle(near, math.nextafter(near, math.inf)) < value:
        near = math.nextafter(near, math.inf)
    while _middle(near, math.nextafter(near, 0.0)) > value:
        near = math.nextafter(near, 0.0)
    for other in (math.nextafter(near, math.inf), math.nextafter(near, 0.0)):
        if _middle(near, other) == value and _is_odd(near):
            return other  # just between the two: the even one
    return near


def _middle(one: float, other: float) -> Fraction:
    """The square of what lies half way between."""
    return ((Fraction(one) + Fraction(other)) / 2) ** 2


def _is_odd(value: float) -> bool:
    return bool(struct.pack(">d", value)[-1] & 1)


def total(values: Sequence[float]) -> float | Fraction:
    special = [value for value in values if not math.isfinite(value)]
    return (
        math.fsum(special)
        if len({bits(v) for v in special}) == 1
        else (math.nan if special else sum(map(Fraction, values), Fraction(0)))
    )


def float_sum(values: Sequence[float]) -> float | None:
    if not values:
        return None
    exact = total(values)
    return rounded(exact) if isinstance(exact, Fraction) else exact


def average(values: Sequence[float]) -> float | None:
    if not values:
        return None
    exact = total(values)
    return rounded(exact / len(values)) if isinstance(exact, Fraction) else exact


def spread(values: Sequence[float], *, sample: bool, deviation: bool) -> float | None:
    if len(values) < 1 + sample:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    exact = sum(((Fraction(v) - mean) ** 2 for v in values), Fraction(0)) / (len(values) - sample)
    return root(exact) if deviation else rounded(exact)


def quantile(values: Sequence[float], share: Fraction) -> float | None:
    """The value at the rank (n - 1) * share, between two values interpolated; NaN is the greatest."""
    if not values:
        return None
    ordered = sorted(values, key=lambda v: (math.isnan(v), v))
    rank = (len(values) - 1) * share
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    if bits(low) == bits(high) or not (math.isfinite(low) and math.isfinite(high)):
        return float(low if low == high or rank == math.floor(rank) else low + high)
    return rounded(Fraction(low) + (Fraction(high) - Fraction(low)) * (rank - math.floor(rank)))


def min_of(values: Sequence[float]) -> float | None:
    return min(values, key=lambda v: (math.isnan(v), v), default=None)


def max_of(values: Sequence[float]) -> float | None:
    return max(values, key=lambda v: (math.isnan(v), v), default=None)


def distinct(values: Iterable[float]) -> list[float]:
    return list({bits(normal(v)): (0.0 if v == 0 else v) for v in values}.values())


def xs(rows: Sequence[Row]) -> list[float]:
    return [row.x for row in rows if row.x is not None]


def ints(rows: Sequence[Row]) -> list[int]:
    return [row.i for row in rows if row.i is not None]


AGGREGATES: dict[str, tuple[str, Callable[[list[Row]], Value]]] = {
    "n": ("count(*)", len),
    "n_x": ("count(x)", lambda rows: len(xs(rows))),
    "sum_x": ("sum(x)", lambda rows: float_sum(xs(rows))),
    "avg_x": ("avg(x)", lambda rows: average(xs(rows))),
    "min_x": ("min(x)", lambda rows: normal(min_of(xs(rows)))),
    "max_x": ("max(x)", lambda rows: normal(max_of(xs(rows)))),
    "var_x": ("var(x)", lambda rows: spread(xs(rows), sample=True, deviation=False)),
    "varp_x": ("var_pop(x)", lambda rows: spread(xs(rows), sample=False, deviation=False)),
    "dev_x": ("stddev(x)", lambda rows: spread(xs(rows), sample=True, deviation=True)),
    "devp_x": ("stddev_pop(x)", lambda rows: spread(xs(rows), sample=False, deviation=True)),
    "sum_i": ("sum(i)", lambda rows: sum(ints(rows)) if ints(rows) else None),
    "avg_i": ("avg(i)", lambda rows: average(ints(rows))),
    "dev_i": ("stddev(i)", lambda rows: spread(ints(rows), sample=True, deviation=True)),
    "min_s": ("min(s)", lambda rows: min((row.s for row in rows if row.s is not None), default=None)),
    "dist_x": ("count(distinct x)", lambda rows: len(distinct(xs(rows)))),
    "dist_sum_x": ("sum(distinct x)", lambda rows: float_sum(distinct(xs(rows)))),
    "dist_i": ("avg(distinct i)", lambda rows: average(sorted(set(ints(rows))))),
    "few": (
        "sum(i) filter (where i > 2)",
        lambda rows: sum(found) if (found := [i for i in ints(rows) if i > 2]) else None,
    ),
    "many": ("count(*) filter (where x > 0)", lambda rows: sum(v > 0 or math.isnan(v) for v in xs(rows))),
    "first_s": ("first(s)", lambda rows: next((r.s for r in sorted(rows, key=_place) if r.s is not None), None)),
    "last_x": (
        "last(x)",
        lambda rows: next((r.x for r in sorted(rows, key=_place, reverse=True) if r.x is not None), None),
    ),
    "least_s": ("arg_min(s, x)", lambda rows: _arg_extreme(rows, greatest=False)),
    "most_s": ("arg_max(s, x)", lambda rows: _arg_extreme(rows, greatest=True)),
    "all_x": ("bool_and(x > 0)", lambda rows: all(v > 0 or math.isnan(v) for v in xs(rows)) if xs(rows) else None),
    "any_i": ("bool_or(i > 2)", lambda rows: any(i > 2 for i in ints(rows)) if ints(rows) else None),
    "med_x": ("median(x)", lambda rows: normal(quantile(xs(rows), Fraction(1, 2)))),
    "high_i": ("quantile_cont(i, 0.9)", lambda rows: quantile(ints(rows), Fraction(9, 10))),
    "med_few": ("median(distinct i)", lambda rows: quantile(sorted(set(ints(rows))), Fraction(1, 2))),
    "scalar": ("count(x) * 10 + count(*)", lambda rows: len(xs(rows)) * 10 + len(rows)),
}


def _arg_extreme(rows: Sequence[Row], *, greatest: bool) -> str | None:
    both = [(row.x, row) for row in sorted(rows, key=_place) if row.x is not None and row.s is not None]
    best = (max_of if greatest else min_of)([x for x, _ in both])
    return next((row.s for x, row in both if bits(normal(x)) == bits(normal(best))), None)


def _place(row: Row) -> tuple[int, int, int]:
    return row.place


@dataclass(frozen=True)
class Expected:
    results: set[tuple[Value, ...]]
    late: set[tuple[int, int]]
    partly: int


def aggregate(
    rows: Sequence[Row], windows: Callable[[int], list[Span]], names: Sequence[str], allowed: int = 0
) -> Expected:
    """Result rows as (key, start, end, *aggregates) of bits; (partition, offset) of late rows; partly late rows."""
    groups: dict[tuple[Value, Span], tuple[Value, list[Row]]] = {}
    late, partly = set(), 0
    for row in rows:
        spans = windows(row.ts)
        taken = [span for span in spans if span[1] - 1 + allowed > row.wm]
        if not taken:
            late.add((row.partition, row.offset))
        partly += 0 < len(taken) < len(spans)
        for span in taken:
            key = normal(row.key)
            groups.setdefault((bits(key), span), (key, []))[1].append(row)
    results = {
        (bits(key), *span, *(bits(AGGREGATES[name][1](members)) for name in names))
        for (_, span), (key, members) in groups.items()
    }
    return Expected(results, late, partly)
