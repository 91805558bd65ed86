"""Results of aggregate calls from merged state columns: one value per group, computed exactly and rounded once.

Owns the semantics of each function over its lanes (`lanes`). An integer or decimal result that overflows is reported,
and does not wrap around.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import polars as pl

from headrace.core.types import FLOAT_TYPES, DataType, Decimal, polars_type
from headrace.expr.compiled import AggregateFunction
from headrace.operators.aggregates.columns import MAX, MIN, NANMAX, ROWS, SUM
from headrace.operators.aggregates.exact.rational import scaled_quotient, variance
from headrace.operators.aggregates.exact.rounding import EXPONENT_MAX, quotients
from headrace.operators.aggregates.layout import CallState

_F = AggregateFunction
_DECIMAL = decimal.Context(prec=80)


@dataclass(frozen=True, slots=True)
class Finished:
    """A call's results; `overflow` is True for groups whose result does not fit its type (the value is NULL there)."""

    value: pl.Series
    overflow: pl.Series | None = None


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums per group as whole numbers times 2^exponent."""

    numbers: list[int]
    exponent: int


def finish_call(state: CallState, merged: pl.DataFrame) -> Finished:
    """The results of one call for every row (group) of `merged`, named by the call's slot."""
    call = state.call
    kind = polars_type(call.type)
    match call.function:
        case _F.COUNT:
            return Finished(_counts(state, merged).cast(kind).alias(call.slot))
        case _F.MIN | _F.MAX:
            names = [f"{prefix}{state.extreme}" for prefix in (MIN, MAX, NANMAX)]
            found = next((name for name in names if name in merged.columns), names[0])
            return Finished(_column(merged, found, kind).cast(kind).alias(call.slot))
        case _F.FIRST | _F.LAST:
            return Finished(_column(merged, f"{state.place}.v", kind).cast(kind).alias(call.slot))
        case _F.SUM:
            return _sum(state, merged)
        case _F.AVG:
            return _quotients(state, merged)
        case _F.VAR | _F.VAR_POP | _F.STDDEV | _F.STDDEV_POP:
            return Finished(_variances(state, merged))
        case _:
            assert_never(call.function)


def _column(frame: pl.DataFrame, name: str, kind: pl.DataType) -> pl.Series:
    if name in frame.columns:
        return frame.get_column(name)
    return pl.Series(name, [None], dtype=kind).new_from_index(0, frame.height)


def _filled(numbers: pl.Series) -> pl.Series:
    """Numbers with 0 for NULL. A call of `fill_null` takes longer than all else here for a few groups."""
    return numbers.fill_null(0) if numbers.null_count() else numbers


def _counts(state: CallState, merged: pl.DataFrame) -> pl.Series:
    return _filled(_column(merged, f"{SUM}{state.rows}.{ROWS}", pl.Int64()))


def _units(merged: pl.DataFrame, lane: str | None) -> dict[str, int]:
    """The columns of a sum's whole numbers, each with its power of two."""
    prefix = f"{SUM}{lane}."
    units = {}
    for name in merged.columns:
        part = name.rpartition(".")[2]
        if name.startswith(prefix) and part.startswith("e"):
            units[name] = int(part[1:])
    return units


def _totals(merged: pl.DataFrame, lane: str | None) -> _Totals:
    """A lane's columns of units as one whole number per group."""
    units = _units(merged, lane)
    lowest = min(units.values(), default=0)
    numbers = [0] * merged.height
    for name, exponent in units.items():
        shift = exponent - lowest
        column = _filled(merged.get_column(name)).to_list()
        numbers = [total + (number << shift) for total, number in zip(numbers, column, strict=True)]
    return _Totals(numbers, lowest)


def _scale(dtype: DataType | None) -> int:
    return dtype.scale if isinstance(dtype, Decimal) else 0


def _argument_type(state: CallState) -> DataType:
    assert state.call.argument is not None, "only count(*) has no argument"
    return state.call.argument.type


def _sum(state: CallState, merged: pl.DataFrame) -> Finished:
    call, counts = state.call, _counts(state, merged)
    if _argument_type(state) in FLOAT_TYPES or call.type in FLOAT_TYPES:
        return _quotients(state, merged, divide=False)
    name = f"{SUM}{state.total}.e0"
    if isinstance(call.type, Decimal):
        return _decimal_sums(state, merged, call.type)
    total = _column(merged, name, pl.Int128())
    value = total.cast(polars_type(call.type), strict=False)
    # the cast makes NULL of a sum that does not fit
    overflow = (value.is_null() & total.is_not_null()) & (counts > 0)
    value = value.zip_with(counts > 0, pl.Series([None], dtype=value.dtype).new_from_index(0, merged.height))
    return Finished(value.alias(call.slot), overflow if overflow.any() else None)


def _decimal_sums(state: CallState, merged: pl.DataFrame, dtype: Decimal) -> Finished:
    """Sums as decimals. A difference of scale between argument and result widens, and never rounds."""
    totals = _totals(merged, state.total)
    widen = 10 ** (dtype.scale - _scale(_argument_type(state)))
    limit = 10**dtype.precision
    values: list[decimal.Decimal | None] = []
    overflow = []
    for total, count in zip(totals.numbers, _counts(state, merged).to_list(), strict=True):
        scaled = (total << totals.exponent) * widen
        fits = abs(scaled) < limit
        overflow.append(count > 0 and not fits)
        values.append(decimal.Decimal(scaled).scaleb(-dtype.scale, _DECIMAL) if count > 0 and fits else None)
    made = pl.Series(state.call.slot, values, dtype=polars_type(dtype))
    return Finished(made, pl.Series(overflow, dtype=pl.Boolean) if any(overflow) else None)


def _specials(state: CallState, merged: pl.DataFrame) -> list[float | None] | None:
    """The NaN or infinity that a group's values sum to, None for a group of finite values; None if all groups are
    finite."""
    prefix = f"{SUM}{state.total}."
    if f"{prefix}nan" not in merged.columns:
        return None
    nan, pinf, ninf = (_filled(merged.get_column(prefix + name)).to_list() for name in ("nan", "pinf", "ninf"))
    return [_special(*counts) for counts in zip(nan, pinf, ninf, strict=True)]


def _special(nan: int, pinf: int, ninf: int) -> float | None:
    if nan or (pinf and ninf):
        return math.nan
    return math.inf if pinf else -math.inf if ninf else None


def _quotients(state: CallState, merged: pl.DataFrame, *, divide: bool = True) -> Finished:
    """Sums as floats, or divided by their counts; NULL for a count of 0."""
    counts = _counts(state, merged)
    if isinstance(state.call.type, Decimal):
        totals = _totals(merged, state.total)
        return Finished(_decimal_averages(state, totals, counts.to_list(), state.call.type))
    unit = 10 ** _scale(_argument_type(state))
    values, proven = _fast_quotients(state, merged, counts if divide else None)
    unproven = (~proven & (counts > 0)).arg_true()
    if unproven.len():
        some, totals = counts.gather(unproven).to_list(), _totals(merged[unproven], state.total)
        exact = [
            scaled_quotient(total, (count if divide else 1) * unit, totals.exponent)
            for total, count in zip(totals.numbers, some, strict=True)
        ]
        values = values.scatter(unproven, exact)
    if counts.min() == 0:
        values = values.set(counts == 0, None)
    if (specials := _specials(state, merged)) is not None:
        values = pl.Series(_with_specials(values.to_list(), specials), dtype=pl.Float64)
    return Finished(values.cast(polars_type(state.call.type)).alias(state.call.slot))


def _fast_quotients(state: CallState, merged: pl.DataFrame, counts: pl.Series | None) -> tuple[pl.Series, pl.Series]:
    """Results by float arithmetic, and the mask of those proven to be correctly rounded."""
    units = _units(merged, state.total)
    # a sum over no units is 0.0 exactly
    if not units:
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=True, n=merged.height, eager=True)
    columns = [_filled(merged.get_column(name)).cast(pl.Int64, strict=False) for name in units]
    # 128-bit values beyond int64 became NULL in the cast above: these groups are computed on whole numbers instead
    fits = all(abs(unit) < EXPONENT_MAX for unit in units.values()) and not any(map(pl.Series.has_nulls, columns))
    if not fits or _scale(_argument_type(state)):
        return pl.repeat(0.0, merged.height, eager=True), pl.repeat(value=False, n=merged.height, eager=True)
    lanes = [(column.to_numpy(), unit) for column, unit in zip(columns, units.values(), strict=True)]
    divisors = None if counts is None else counts.clip(lower_bound=1).to_numpy()
    values, proven = quotients(lanes, divisors)
    return pl.Series(values), pl.Series(proven)


def _decimal_averages(state: CallState, totals: _Totals, counts: Sequence[int], dtype: Decimal) -> pl.Series:
    """Averages rounded once to the result's scale, halves to even."""
    widen = 10 ** (dtype.scale - _scale(_argument_type(state)))
    values = [
        decimal.Decimal(_rounded((total << totals.exponent) * widen, count)).scaleb(-dtype.scale, _DECIMAL)
        if count
        else None
        for total, count in zip(totals.numbers, counts, strict=True)
    ]
    return pl.Series(state.call.slot, values, dtype=polars_type(dtype))


def _rounded(numerator: int, denominator: int) -> int:
    whole, rest = divmod(numerator, denominator)
    # `divmod` floors, so the rest is not negative, and halves go to even for negative numerators too
    twice = 2 * rest
    return whole + (twice > denominator or (twice == denominator and whole % 2 == 1))


def _with_specials(values: list[float | None], specials: Sequence[float | None] | None) -> list[float | None]:
    if specials is None:
        return values
    pairs = zip(values, specials, strict=True)
    return [value if value is None or special is None else special for value, special in pairs]


def _floats(state: CallState, values: list[float | None]) -> pl.Series:
    return pl.Series(state.call.slot, values, dtype=pl.Float64).cast(polars_type(state.call.type))


def _variances(state: CallState, merged: pl.DataFrame) -> pl.Series:
    """Variances and deviations; NULL for too few values, NaN if a value is not finite."""
    function = state.call.function
    sample = function in (_F.VAR, _F.STDDEV)
    root = function in (_F.STDDEV, _F.STDDEV_POP)
    totals, squares = _totals(merged, state.total), _totals(merged, state.squares)
    exponent = min(totals.exponent, squares.exponent // 2)
    unit = 10 ** _scale(_argument_type(state))
    needed = 2 if sample else 1
    values: list[float | None] = []
    for count, total, square in zip(_counts(state, merged).to_list(), totals.numbers, squares.numbers, strict=True):
        if count < needed:
            values.append(None)
            continue
        values.append(
            variance(
                count,
                total << (totals.exponent - exponent),
                square << (squares.exponent - 2 * exponent),
                exponent,
                unit=unit,
                sample=sample,
                root=root,
            )
        )
    specials = _specials(state, merged)
    spread = None if specials is None else [None if special is None else math.nan for special in specials]
    return _floats(state, _with_specials(values, spread))
