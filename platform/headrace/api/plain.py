"""Python values as the plain data of a pipeline file: the builder's arguments become what YAML would contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath

from headrace.api.expression import Expr, Expression, expression
from headrace.api.literal import Value, utc_text
from headrace.core.config import duration_text
from headrace.core.errors import UserError

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""The content of a pipeline file."""


def plain(given: object, where: str) -> Plain:
    """Returns a field's value as plain data: a timedelta becomes a duration, an Expr its SQL, a datetime RFC 3339 in
    UTC.

    `where` names node and field in the UserError for a value that a file cannot hold.
    """
    match given:
        case None | bool() | float():
            return given
        case int():
            return int(given)
        case str():
            return str(given)
        case Expr():
            return given.sql
        case timedelta():
            return _duration(given, where)
        case datetime():
            return utc_text(given, sep="T") + "Z"
        case date() | Decimal() | PurePath():
            return str(given)
        case Mapping():
            return {str(key): plain(value, f"{where}.{key}") for key, value in given.items()}
        case Sequence() if not isinstance(given, bytes | bytearray | memoryview):
            return [plain(value, f"{where}.{index}") for index, value in enumerate(given)]
        case _:
            raise UserError(
                f"{where}: a pipeline cannot hold a {type(given).__name__}",
                remedy="give text, numbers, times, lists, mappings, or expressions",
            )


def expression_text(given: Expression | Value, where: str) -> str:
    """Returns an expression as SQL text: text unchanged, an Expr rendered, any other value as a literal."""
    try:
        return expression(given).sql
    except UserError as error:
        raise UserError(f"{where}: {error.message}", remedy=error.remedy) from error


def row_text(given: object, where: str) -> Plain:
    """Returns a value of a test row as in a file: every scalar as text, because its column defines the type."""
    match plain(given, where):
        case None:
            return None
        case bool() as truth:
            return "true" if truth else "false"
        case list() | dict() as parts if isinstance(parts, dict):
            return {key: row_text(value, f"{where}.{key}") for key, value in parts.items()}
        case list() as items:
            return [row_text(value, where) for value in items]
        case scalar:
            return str(scalar)


def _duration(given: timedelta, where: str) -> str:
    if given % timedelta(milliseconds=1):
        raise UserError(f"{where}: {given} has a fraction of a millisecond", remedy="round it to milliseconds")
    return duration_text(given // timedelta(milliseconds=1))
