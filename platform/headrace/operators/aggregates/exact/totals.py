"""Exact sums in merged state columns: whole numbers by group, and the quotients of floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import DataType, Decimal
from headrace.operators.aggregates.columns import SUM
from headrace.operators.aggregates.exact.rounding import EXPONENT_MAX, quotients
from headrace.operators.aggregates.state import filled


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums per group as whole numbers times 2^exponent."""

    numbers: list[int]
    exponent: int


def units(merged: pl.DataFrame, lane: str) -> dict[str, int]:
    """The columns of a sum's whole numbers, each with its power of two."""
    prefix = f"{SUM}{lane}."
    found = {}
    for name in merged.columns:
        part = name.rpartition(".")[2]
        if name.startswith(prefix) and part.startswith("e"):
            found[name] = int(part[1:])
    return found


def totals(merged: pl.DataFrame, lane: str) -> Totals:
    """A lane's columns of units as one whole number per group."""
    exponents = units(merged, lane)
    lowest = min(exponents.values(), default=0)
    numbers = [0] * merged.height
    for name, exponent in exponents.items():
        shift = exponent - lowest
        column = filled(merged.get_column(name)).to_list()
        numbers = [total + (number << shift) for total, number in zip(numbers, column, strict=True)]
    return Totals(numbers, lowest)


def scale_of(dtype: DataType) -> int:
    """Decimal places of the whole number that a value of the type is kept as."""
    return dtype.scale if isinstance(dtype, Decimal) else 0


def specials(merged: pl.DataFrame, lane: str) -> list[float | None] | None:
    """The NaN or infinity that a group's values sum to, None for a group of finite values; None if all groups are
    finite."""
    prefix = f"{SUM}{lane}."
    if f"{prefix}nan" not in merged.columns:
        return None
    nan, pinf, ninf = (filled(merged.get_column(prefix + name)).to_list() for name in ("nan", "pinf", "ninf"))
    return [_special(*counts) for counts in zip(nan, pinf, ninf, strict=True)]


def _special(nan: int, pinf: int, ninf: int) -> float | None:
    if nan or (pinf and ninf):
        return math.nan
    return math.inf if pinf else -math.inf if ninf else None


def with_specials(values: list[float | None], special: Sequence[float | None] | None) -> list[float | None]:
    """Values, replaced where a group has a NaN or an infinity. NULL stays NULL."""
    if special is None:
        return values
    pairs = zip(values, special, strict=True)
    return [value if value is None or other is None else other for value, other in pairs]


def fast_quotients(
    merged: pl.DataFrame, lane: str, counts: pl.Series | None, scale: int
) -> tuple[pl.Series, pl.Series]:
    """Sums, divided by counts if given, by float arithmetic, and the mask of those proven to be correctly rounded."""
    exponents = units(merged, lane)
    # a sum over no units is 0.0 exactly
    if not exponents:
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=True, n=merged.height, eager=True)
    columns = [filled(merged.get_column(name)).cast(pl.Int64, strict=False) for name in exponents]
    # 128-bit values beyond int64 became NULL in the cast above: these groups are computed on whole numbers instead
    fits = all(abs(unit) < EXPONENT_MAX for unit in exponents.values()) and not any(map(pl.Series.has_nulls, columns))
    if not fits or scale:
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=False, n=merged.height, eager=True)
    lanes = [(column.to_numpy(), unit) for column, unit in zip(columns, exponents.values(), strict=True)]
    divisors = None if counts is None else counts.clip(lower_bound=1).to_numpy()
    values, proven = quotients(lanes, divisors)
    return pl.Series(values), pl.Series(proven)
