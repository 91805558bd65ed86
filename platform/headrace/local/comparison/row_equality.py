"""Compares two frames as multisets of rows, column by column and without a Python object per row. Pure.

Two rows are equal if all their values are. NULL equals only NULL, NaN equals NaN whatever its bits, and -0.0 differs
from 0.0; in lists and structs too. Frames whose columns differ in type hold no equal rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

EXAMPLES = 20
"""Most missing rows, and most extra rows, that a comparison shows."""
_SIDE, _INDEX, _KEY = "__side", "__index", "__key"


@dataclass(frozen=True, slots=True)
class RowsCompared:
    """The difference of `actual` from `expected`.

    equal             number of rows in both
    missing, extra    rows only in `expected`, and only in `actual`; duplicates count
    missing_examples, extra_examples   the smallest of them in column order; each distinct row once
    types             columns of different type, or on one side only, as texts; if any, no rows were compared
    """

    equal: int
    missing: int
    extra: int
    missing_examples: pl.DataFrame
    extra_examples: pl.DataFrame
    types: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.types)


def compare_rows(expected: pl.DataFrame, actual: pl.DataFrame, *, examples: int = EXAMPLES) -> RowsCompared:
    """Compares all columns of both frames; the order of columns and of rows does not matter."""
    if types := _type_differences(expected, actual):
        empty = expected.clear()
        return RowsCompared(0, expected.height, actual.height, empty, actual.clear(), types)
    actual = actual.select(expected.columns)
    if not expected.width:
        surplus = expected.height - actual.height
        least = min(expected.height, actual.height)
        return RowsCompared(least, max(surplus, 0), max(-surplus, 0), expected.clear(), actual.clear())
    odd = _surplus(expected, actual, exact=True)
    missing, extra = odd.filter(pl.col(_SIDE) > 0), odd.filter(pl.col(_SIDE) < 0)
    missing_rows, extra_rows = _total(missing), -_total(extra)
    return RowsCompared(
        expected.height - missing_rows,
        missing_rows,
        extra_rows,
        _examples(expected, missing, examples),
        _examples(actual, extra, examples),
    )


def all_compared(parts: Iterable[RowsCompared], *, examples: int = EXAMPLES) -> RowsCompared:
    """The comparison of all rows, from the comparisons of parts (at least one). Equal rows must be in the same part."""
    total: RowsCompared | None = None
    for part in parts:
        total = part if total is None else _both(total, part, examples)
    assert total is not None, "there is a part"
    return total


def surplus_rows(
    expected: pl.DataFrame, actual: pl.DataFrame, *, exact: bool = True
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The surplus rows of `expected` and of `actual`, each as often as it is surplus.

    Columns and their types must be the same in both frames. exact: -0.0 differs from 0.0.
    """
    if not expected.width:
        return expected, actual
    odd = _surplus(expected, actual, exact=exact)
    times = pl.col(_INDEX).repeat_by(pl.col(_SIDE).abs()).explode()
    missing, extra = (odd.filter(each).select(times).to_series() for each in (pl.col(_SIDE) > 0, pl.col(_SIDE) < 0))
    return expected[missing], actual[extra]


def comparable(rows: pl.DataFrame, *, exact: bool = True) -> list[tuple[object, ...]]:
    """The rows as tuples that are equal in Python exactly if the rows are equal by this module's rules."""
    return rows.select(_keys(rows, exact=exact)).rows()


def _both(one: RowsCompared, other: RowsCompared, examples: int) -> RowsCompared:
    missing, extra = (
        _least(pl.concat(rows), examples)
        for rows in (
            (one.missing_examples, other.missing_examples),
            (one.extra_examples, other.extra_examples),
        )
    )
    return RowsCompared(
        one.equal + other.equal,
        one.missing + other.missing,
        one.extra + other.extra,
        missing,
        extra,
        one.types or other.types,
    )


def _examples(rows: pl.DataFrame, odd: pl.DataFrame, count: int) -> pl.DataFrame:
    return _least(rows[odd.get_column(_INDEX)], count)


def _least(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """The first rows in an order that both sides share, so that the examples of both include similar rows."""
    simple = [name for name, dtype in rows.schema.items() if not dtype.is_nested()]
    return (rows.sort(simple) if simple else rows).head(count)


def _surplus(expected: pl.DataFrame, actual: pl.DataFrame, *, exact: bool) -> pl.DataFrame:
    """One row per distinct row whose counts differ: the surplus, and its first index on the side with more of it."""
    sides = [
        rows.select(
            *_keys(rows, exact=exact),
            pl.lit(side, dtype=pl.Int64).alias(_SIDE),
            pl.int_range(pl.len(), dtype=pl.UInt32).alias(_INDEX),
        )
        for rows, side in ((expected, 1), (actual, -1))
    ]
    keys = [name for name in sides[0].columns if name.startswith(_KEY)]
    here, there = pl.col(_INDEX).filter(pl.col(_SIDE) > 0).min(), pl.col(_INDEX).filter(pl.col(_SIDE) < 0).min()
    side = pl.col(_SIDE).sum()
    counted = pl.concat(sides).group_by(keys).agg(side, pl.when(side > 0).then(here).otherwise(there).alias(_INDEX))
    return counted.filter(pl.col(_SIDE) != 0).select(_SIDE, _INDEX).sort(_INDEX)


def _keys(rows: pl.DataFrame, *, exact: bool) -> list[pl.Expr]:
    """Key columns that polars groups exactly as rows are equal here; polars itself equates -0.0 and 0.0."""
    types = enumerate(rows.schema.items())
    return [_key(pl.col(name), dtype, exact=exact).alias(f"{_KEY}{n}") for n, (name, dtype) in types]


def _key(value: pl.Expr, dtype: pl.DataType, *, exact: bool) -> pl.Expr:
    """A value that polars and Python find equal to another one if the originals are equal by this module's rules."""
    if not _has_floats(dtype):
        return value
    match dtype:
        case pl.List():
            inner = dtype.inner
            assert isinstance(inner, pl.DataType)
            return value.list.eval(_key(pl.element(), inner, exact=exact))
        case pl.Struct():
            fields = [
                _key(value.struct.field(each.name), _instance(each.dtype), exact=exact).alias(each.name)
                for each in dtype.fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(fields))
        case _:
            # polars groups -0.0 with 0.0, and in Python NaN equals nothing: both get a flag of their own
            number = (value.fill_nan(0.0) + 0.0).alias("number")
            negative_zero = ((value == 0) & (1 / value < 0) if exact else pl.lit(value=False)).alias("negative_zero")
            return pl.when(value.is_not_null()).then(pl.struct(number, value.is_nan().alias("nan"), negative_zero))


def _has_floats(dtype: pl.DataType) -> bool:
    match dtype:
        case pl.List():
            return _has_floats(_instance(dtype.inner))
        case pl.Struct():
            return any(_has_floats(_instance(each.dtype)) for each in dtype.fields)
        case _:
            return dtype.is_float()


def _instance(dtype: object) -> pl.DataType:
    assert isinstance(dtype, pl.DataType), "types of data have their parameters"
    return dtype


def _total(odd: pl.DataFrame) -> int:
    return int(odd.get_column(_SIDE).sum())


def _type_differences(expected: pl.DataFrame, actual: pl.DataFrame) -> tuple[str, ...]:
    names = dict.fromkeys((*expected.columns, *actual.columns))
    pairs = ((name, expected.schema.get(name), actual.schema.get(name)) for name in names)
    return tuple(
        f"{name}: {wanted or 'no such column'} and {found or 'no such column'}"
        for name, wanted, found in pairs
        if wanted != found
    )
