"""Finds rows with NULL where their column's type has none: in a `not null` column, or inside lists and structs.

Readers that return columns (Parquet files, generators, memory) leave that to the ingest of their source.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np
import polars as pl

from headrace.core.time_range import Mask
from headrace.core.types import DataType, ListOf, Struct


def restricts(dtype: DataType, *, nullable: bool) -> bool:
    """Whether there are places of the type in which NULL is forbidden."""
    match dtype:
        case ListOf(inner, inner_nullable):
            return not nullable or restricts(inner, nullable=inner_nullable)
        case Struct(fields):
            return not nullable or any(restricts(field.type, nullable=field.nullable) for field in fields)
        case _:
            return not nullable


def forbidden_nulls(column: pl.Series, dtype: DataType, *, nullable: bool) -> Mask | None:
    """The rows that hold NULL in such a place; None if there are none."""
    found = [] if nullable or not column.null_count() else [column.is_null().to_numpy()]
    match dtype:
        case ListOf(inner, inner_nullable) if restricts(inner, nullable=inner_nullable):
            found += _in_lists(column, inner, nullable=inner_nullable)
        case Struct(fields):
            present = column.is_not_null().to_numpy()
            for field in fields:
                inside = forbidden_nulls(column.struct.field(field.name), field.type, nullable=field.nullable)
                # the fields of a struct that is NULL are NULL
                found += [] if inside is None or not (inside & present).any() else [inside & present]
        case _:
            pass
    return reduce(or_, found) if found else None


def _in_lists(column: pl.Series, dtype: DataType, *, nullable: bool) -> Sequence[Mask]:
    lengths = column.list.len().fill_null(0)
    # an empty list would be a NULL in the exploded column
    inside = forbidden_nulls(column.filter(lengths > 0).explode(), dtype, nullable=nullable)
    if inside is None:
        return []
    mask = np.zeros(len(column), dtype=bool)
    mask[np.repeat(np.arange(len(column)), lengths.to_numpy())[inside]] = True
    return [mask]
