"""Float division and power whose result for a row has the same bits in every batch.

polars divides by a scalar by multiplying with its reciprocal, which rounds twice, and has shortcuts for powers with a
scalar exponent. It treats a column of one row, or one filled from a literal, as a scalar too: so the same row would
have another result alone than among others.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def quotient(left: pl.Expr, right: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """left / right of two float expressions of type `dtype`, rounded once."""
    return pl.map_batches([left, right], _quotients, return_dtype=dtype)


def power(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """base to the power of exponent, float64."""
    if not exponent.meta.root_names():
        return base.pow(exponent)  # a scalar in every batch, so the shortcut is always the same
    return pl.map_batches([base, exponent], _powers, return_dtype=pl.Float64())


def _quotients(pair: Sequence[pl.Series]) -> pl.Series:
    left, right = pair
    return left / _stretched(right, len(left))


def _powers(pair: Sequence[pl.Series]) -> pl.Series:
    rows = max(map(len, pair))
    # one row more than the batch has, so that polars never treats a side as a scalar
    base, exponent = (_stretched(side, rows).extend_constant(1.0, 1) for side in pair)
    found: pl.Series = base.pow(exponent)
    return found.head(rows)


def _stretched(side: pl.Series, rows: int) -> pl.Series:
    """Extends a constant, which polars passes as one value, to the other side's height."""
    return side.new_from_index(0, rows) if len(side) == 1 and rows > 1 else side
