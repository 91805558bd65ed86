"""Whether two frames hold the same rows, as multisets, column by column and without a Python object per row. Pure.

Rows are equal where every value is, to the bit as far as a value has a meaning: NULL equals NULL only, NaN equals NaN
whatever its bits, -0.0 is not 0.0; in lists and structs too. Frames whose columns differ in type hold no equal rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

EXAMPLES = 20
"""Rows of each kind that a comparison shows."""
_SIDE, _INDEX, _KEY = "__side", "__index", "__key"


@dataclass(frozen=True, slots=True)
class RowsCompared:
    """How `actual` differs from `expected`.

    equal             rows that are in both
    missing, extra    rows that `actual` lacks, and that it has beyond; a row twice is two rows
    missing_examples, extra_examples   the least of them, by their columns in order; each different row once
    types             columns of another type, or only on one side, as texts; then nothing else was compared
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
    """Compares all columns of both; their order does not matter."""
    if types := _type_differences(expected, actual):
        empty = expected.clear()
        return RowsCompared(0, expected.height, actual.height, empty, actual.clear(), types)
    actual = actual.select(expected.columns)
    if not expected.width:
        surplus = expected.height - actual.height
        least = min(expected.height, actual.height)
        return RowsCompared(least, max(surplus, 0), max(-surplus, 0), expected.clear(), actual.clear())
    odd = _surplus(expected, actual)
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
    """The comparison of all rows out of those of parts. Equal rows must be in the same part; there is at least one."""
    told: RowsCompared | None = None
    for part in parts:
        told = part if told is None else _both(told, part, examples)
    assert told is not None, "there is a part"
    return told


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
    """In an order that both sides share, so that rows which are nearly the same are seen on both."""
    simple = [name for name, dtype in rows.schema.items() if not dtype.is_nested()]
    return (rows.sort(simple) if simple else rows).head(count)


def _surplus(expected: pl.DataFrame, actual: pl.DataFrame) -> pl.DataFrame:
    """A row for each different row that is not as often on both sides: the surplus, and where it first stands on the
    side that has more of it."""
    sides = [_keyed(expected, 1), _keyed(actual, -1)]
    keys = [name for name in sides[0].columns if name.startswith(_KEY)]
    here, there = pl.col(_INDEX).filter(pl.col(_SIDE) > 0).min(), pl.col(_INDEX).filter(pl.col(_SIDE) < 0).min()
    side = pl.col(_SIDE).sum()
    counted = pl.concat(sides).group_by(keys).agg(side, pl.when(side > 0).then(here).otherwise(there).alias(_INDEX))
    return counted.filter(pl.col(_SIDE) != 0).select(_SIDE, _INDEX).sort(_INDEX)


def _keyed(rows: pl.DataFrame, side: int) -> pl.DataFrame:
    """The rows as polars can group them by what makes them equal: it holds -0.0 for 0.0, and knows NaN and NULL."""
    keys = [_exact(pl.col(name), dtype).alias(f"{_KEY}{n}") for n, (name, dtype) in enumerate(rows.schema.items())]
    return rows.select(
        *keys,
        pl.lit(side, dtype=pl.Int64).alias(_SIDE),
        pl.int_range(pl.len(), dtype=pl.UInt32).alias(_INDEX),
    )


def _exact(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """A value that is equal to another one, to polars, where the original is to us."""
    if not _has_floats(dtype):
        return value
    match dtype:
        case pl.List():
            inner = dtype.inner
            assert isinstance(inner, pl.DataType)
            return value.list.eval(_exact(pl.element(), inner))
        case pl.Struct():
            fields = [
                _exact(value.struct.field(each.name), _instance(each.dtype)).alias(each.name) for each in dtype.fields
            ]
            return pl.when(value.is_not_null()).then(pl.struct(fields))
        case _:
            negative_zero = (value == 0) & (1 / value < 0)
            return pl.when(value.is_not_null()).then(pl.struct(value.alias("value"), negative_zero.alias("negative")))


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
