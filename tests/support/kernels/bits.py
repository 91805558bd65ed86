"""Compares frames bit by bit: floats as integers, so that -0.0 differs from 0.0."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

_FLOAT_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs, and in which row, if it is one."""

    text: str
    row: int | None = None


def difference(left: pl.DataFrame, right: pl.DataFrame) -> Difference | None:
    """The first difference of two frames: of schema, height, or one value; None where there is none.

    What stands behind a NULL does not count. `left` is checked to be valid Arrow, too.
    """
    if left.schema != right.schema:
        return Difference(f"columns {left.schema} and {right.schema}")
    if left.height != right.height:
        return Difference(f"{left.height} and {right.height} rows")
    for name in left.columns:
        one, other = _arrow(left[name]), _arrow(right[name])
        one.validate(full=True)
        if not _same_bits(one, other):
            return _first_row(name, one, other)
    return None


def _arrow(column: pl.Series) -> pa.Array:
    return column.to_arrow(compat_level=pl.CompatLevel.newest())


def _first_row(name: str, left: pa.Array, right: pa.Array) -> Difference:
    for row in range(len(left)):
        one, other = left.slice(row, 1), right.slice(row, 1)
        if not _same_bits(one, other):
            return Difference(f"column {name!r}, row {row}: {one.to_pylist()} and {other.to_pylist()}", row)
    return Difference(f"column {name!r}, in no row alone")


def _same_bits(left: pa.Array, right: pa.Array) -> bool:
    if len(left) != len(right) or left.null_count != right.null_count or not left.is_null().equals(right.is_null()):
        return False
    if pa.types.is_struct(left.type):
        return all(map(_same_bits, left.flatten(), right.flatten()))
    if pa.types.is_large_list(left.type):
        lengths = left.value_lengths().equals(right.value_lengths())
        return lengths and _same_bits(left.flatten(), right.flatten())
    bits = _FLOAT_BITS.get(left.type)
    return bool(left.equals(right) if bits is None else left.view(bits).equals(right.view(bits)))
