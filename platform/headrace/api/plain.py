"""Python values as the plain data of a pipeline file: the builder's arguments become what YAML would contain.

A map step's function becomes its import path: the form in which another process finds it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from headrace.api.expression import Expr, Expression, expression
from headrace.api.literal import Value, utc_text
from headrace.core.config import duration_text
from headrace.core.errors import UserError

if TYPE_CHECKING:
    import polars as pl


Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""The content of a pipeline file."""
MapFunction = Callable[["pl.DataFrame"], "pl.DataFrame"]
"""Accepts a DataFrame of the visible columns, returns the same number of rows in the same order."""
_MOVE = "define it with def at the top level of a module beside the pipeline, and pass that"
_YAML_WIDTH = 100_000


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


def yaml_text(data: Mapping[str, Any]) -> str:
    """Returns the file form as YAML in block style, each expression on one line. The loader reads it back as an equal
    pipeline."""
    from ruamel.yaml import YAML

    writer = YAML(typ="rt")
    # a folded expression would load as the same text, but would not look as the user wrote it
    writer.width = _YAML_WIDTH
    writer.allow_unicode = True
    writer.indent(mapping=2, sequence=4, offset=2)
    target = io.StringIO()
    writer.dump(_escaped(data), target)
    return target.getvalue()


def _escaped(value: Any) -> Any:
    """Returns the data with `${` as `$${`: Python values hold no variables of files."""
    match value:
        case str():
            return value.replace("${", "$${")
        case Mapping():
            return {key: _escaped(item) for key, item in value.items()}
        case list() | tuple():
            return [_escaped(item) for item in value]
        case _:
            return value


def function_path(function: MapFunction | str, where: str) -> str:
    """Returns `pkg.mod:fn` of a function. Raises UserError for a function that another process could not import."""
    if isinstance(function, str):
        return function
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        raise UserError(f"{where}: a {type(function).__name__} has no import path", remedy=_MOVE)
    if name.endswith("<lambda>"):
        raise UserError(f"{where}: a lambda cannot be imported by another process", remedy=_MOVE)
    if "<locals>" in name:
        raise UserError(f"{where}: {name} is made inside of a function, where no import finds it", remedy=_MOVE)
    if module == "__main__":
        raise UserError(
            f"{where}: {name} is in the script that runs, which other processes import under another name", remedy=_MOVE
        )
    if not _same(_found(module, name), function):
        raise UserError(f"{where}: importing {module}:{name} does not give this function", remedy=_MOVE)
    return f"{module}:{name}"


def _found(module: str, name: str) -> object:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _same(found: object, function: object) -> bool:
    """Whether two functions have equal code: loading a pipeline file twice creates its functions twice."""
    code = getattr(function, "__code__", None)
    return found is function or (code is not None and getattr(found, "__code__", None) == code)
