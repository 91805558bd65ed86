"""Lookup of an input column that a step names."""

from __future__ import annotations

from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Field, Schema


def input_field(schema: Schema, name: str) -> Field:
    """The input's field with this name. Raises UserError with the nearest name and all names."""
    field = schema.get(name)
    if field is None:
        columns = f"columns: {', '.join(schema.names)}"
        hint = did_you_mean(name, schema.names)
        raise UserError(f"unknown column {name!r}", remedy=f"{hint} {columns}" if hint else columns)
    return field
