"""Formats rows for users (values as in a pipeline file) and for `--json`. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

Row = Mapping[str, object]
_SPECIAL = set(",{}[]:#'\"")


def value_text(value: object) -> str:
    """A value as text, in a form that a pipeline file accepts."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            plain = value and value.isprintable() and value == value.strip() and not set(value) & _SPECIAL
            return value if plain else repr(value)
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case dict():
            return row_text(value)
        case _:
            return str(json_value(value))


def row_text(row: Row) -> str:
    """A row as text, in a form that a pipeline file accepts."""
    return "{" + ", ".join(f"{name}: {value_text(value)}" for name, value in row.items()) + "}"


def json_row(row: Row) -> dict[str, object]:
    """A row as JSON values: times, decimals, NaN and infinities as text, binary as base64."""
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: object) -> object:
    """A value as a JSON value; see `json_row`."""
    match value:
        case datetime():
            spec = "microseconds" if value.microsecond % 1000 else "milliseconds"
            return value.replace(tzinfo=None).isoformat(timespec=spec) + "Z"
        case date() | Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [json_value(item) for item in value]
        case dict():
            return json_row(value)
        case _:
            return value
