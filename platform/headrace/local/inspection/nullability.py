"""Decides which columns of an inferred schema are `not null`: by wish only. Pure.

A sample without a null does not show that the next row has none, and a null in a `not null` column is a bad row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import DataType, Field, ListOf, Schema, Struct
from headrace.local.inspection.infer import Inferred


def declared(inferred: Inferred, *, keys: Sequence[str], not_null: bool) -> Inferred:
    """The schema with nullable columns, except keys, and with `not_null` except columns that were never null.

    Raises UserError for a key that is no column, or that was null.
    """
    for key in keys:
        if key not in inferred.schema:
            names = inferred.schema.names
            raise UserError(f"--key {key}: there is no such column", remedy=did_you_mean(key, tuple(names)))
        if inferred.schema.field(key).nullable:
            raise UserError(f"--key {key}: some rows have no value there", remedy="a key has one in every row")
    if not_null:
        return inferred
    fields = [Field(item.name, _open(item.type), nullable=item.name not in keys) for item in inferred.schema]
    return replace(inferred, schema=Schema(tuple(fields)))


def _open(dtype: DataType) -> DataType:
    """The type with nullable content."""
    match dtype:
        case ListOf(inner):
            return ListOf(_open(inner))
        case Struct(fields):
            return Struct(tuple(Field(item.name, _open(item.type)) for item in fields))
        case _:
            return dtype
