"""Parses polars types from their text, as manifests hold them: `Int64`, `Decimal(precision=38, scale=2)`,
`List(String)`.

    dtype_of("Datetime(time_unit='us', time_zone='UTC')")  -> pl.Datetime("us", "UTC")

The inverse of `str(dtype)` for every type that state has. The text is parsed, never evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Literal

import polars as pl

from headrace.core.errors import ExternalError

_PLAIN: Mapping[str, pl.DataType] = {
    str(dtype()): dtype()
    for dtype in (
        pl.Binary, pl.Boolean, pl.Date, pl.Float32, pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128,
        pl.Null, pl.String, pl.Time, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
    )
}  # fmt: skip


def dtype_of(text: str) -> pl.DataType:
    """The type. Raises ExternalError for a text that names no known type (written by a newer version)."""
    try:
        return _dtype(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        raise ExternalError(
            f"state has a column of type {text!r}, which this version of headrace does not know",
            remedy="read it with the version that wrote it",
        ) from error


def _dtype(node: ast.expr) -> pl.DataType:
    match node:
        case ast.Name(id=name):
            return _PLAIN[name]
        case ast.Call(func=ast.Name(id="List"), args=[inner]):
            return pl.List(_dtype(inner))
        case ast.Call(func=ast.Name(id="Struct"), args=[ast.Dict(keys=names, values=types)]):
            return pl.Struct({_text(name): _dtype(inner) for name, inner in zip(names, types, strict=True)})
        case ast.Call(func=ast.Name(id="Datetime"), keywords=words):
            given = _words(words)
            zone = given.get("time_zone")
            return pl.Datetime(_unit(given["time_unit"]), None if zone is None else str(zone))
        case ast.Call(func=ast.Name(id="Duration"), keywords=words):
            return pl.Duration(_unit(_words(words)["time_unit"]))
        case ast.Call(func=ast.Name(id="Decimal"), keywords=words):
            given = _words(words)
            return pl.Decimal(int(str(given["precision"])), int(str(given["scale"])))
        case _:
            raise ValueError(ast.dump(node))


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a field has a name")


def _unit(value: object) -> Literal["ms", "us", "ns"]:
    found: dict[object, Literal["ms", "us", "ns"]] = {"ms": "ms", "us": "us", "ns": "ns"}
    return found[value]


def _words(words: list[ast.keyword]) -> dict[str, object]:
    return {word.arg: word.value.value for word in words if word.arg and isinstance(word.value, ast.Constant)}
