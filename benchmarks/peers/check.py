"""Compares all results of a run with the expected ones, row by row and field by field."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

SUM_TOLERANCE = 1e-9
"""Relative: contenders add floats in different orders."""
_SHOWN_ROWS = 3


class WrongOutputError(Exception):
    """A contender lost, doubled or changed a row."""


def parsed(chunks: Iterable[list[bytes]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Returns messages as rows; fields that `schema` does not name are dropped."""
    frames = [pl.read_ndjson(b"\n".join(chunk), schema=schema) for chunk in chunks if chunk]
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def require_equal(found: pl.DataFrame, expected: pl.DataFrame, *, sums: tuple[str, ...] = ()) -> None:
    """Compares rows in any order; `sums` are float fields with a tolerance, all others are equal bit for bit.

    Raises WrongOutputError with a few of the differing rows.
    """
    keys = [name for name, kind in expected.schema.items() if name not in sums and not kind.is_nested()]
    found, expected = found.sort(keys), expected.sort(keys)
    if found.height != expected.height:
        raise WrongOutputError(f"{found.height} rows instead of {expected.height}")
    wrong = pl.Series([False]).new_from_index(0, expected.height)
    for name in expected.columns:
        wrong |= _differs(found[name], expected[name], tolerance=SUM_TOLERANCE if name in sums else None)
    if wrong.any():
        written, right = (rows.filter(wrong).head(_SHOWN_ROWS).to_dicts() for rows in (found, expected))
        raise WrongOutputError(f"{wrong.sum()} of {expected.height} rows differ: {written} instead of {right}")


def _differs(found: pl.Series, expected: pl.Series, *, tolerance: float | None) -> pl.Series:
    if tolerance is None:
        return found.ne_missing(expected)
    # a missing or NaN sum is no sum within the tolerance
    close = (found - expected).abs() <= tolerance * expected.abs()
    return ~(close.fill_null(value=False) & found.is_not_nan().fill_null(value=False))
