"""The rows of a view that a user asks for: those of a key, and those for which a condition is true.

    rows = selected(view, parse_key(view, ["origin=JFK"]), where="delay > 10")

A whole key is looked up in the row groups that can hold it. A part of a key, like a condition, is compared with every
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from headrace.checkpoint.inspection.views import Key, View, key_row
from headrace.core.errors import ExpressionError, UserError, did_you_mean
from headrace.expr.compiled import CompiledScalar
from headrace.expr.compiler import compile_predicate
from headrace.spec.findings import FindingsError
from headrace.spec.rows import typed_value


def parse_key(view: View, texts: Iterable[str]) -> Key:
    """The values of `COLUMN=VALUE` texts. Raises UserError, as `typed_key`."""
    given: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"key {text!r} has no value", remedy="write it as COLUMN=VALUE")
        if name in given:
            raise UserError(f"key column {name!r} is given twice", remedy="give it once")
        given[name] = value
    return typed_key(view, given)


def typed_key(view: View, given: Key) -> Key:
    """The values, texts among them, in the types of the view's key. Raises UserError with the key columns that there
    are, or with the type that a value does not have."""
    place = f"{view.node}.{view.state}" if view.state else view.node
    key: dict[str, object] = {}
    for name, value in given.items():
        if name not in view.keys:
            listed = f"key columns: {', '.join(view.keys)}" if view.keys else "it has no key: use a condition (where)"
            hint = did_you_mean(name, view.keys)
            raise UserError(f"{place} has no key column {name!r}", remedy=f"{hint} {listed}" if hint else listed)
        try:
            key[name] = typed_value(value, view.schema.field(name).type)
        except FindingsError as error:
            finding = error.findings[0]
            problem = f"key {name}={value}: {finding.message}"
            raise UserError(problem, remedy=finding.remedy or f"it is {view.schema.field(name).type}") from error
    return key


def selected(view: View, key: Key, where: str | None) -> Iterator[pl.DataFrame]:
    """The rows of a key for which a condition is true, as frames that are not empty.

    key: any number of the key columns, with typed values; where: an expression over `view.schema`, or None.
    Raises UserError for a condition that is wrong or that fails for a row, ExternalError.
    """
    condition = None if where is None else _compiled(view, where)
    return _chosen(view, key, condition)


def _chosen(view: View, key: Key, condition: CompiledScalar | None) -> Iterator[pl.DataFrame]:
    for frame in _of_key(view, key) if key else view.pieces():
        found = frame if condition is None else _true_in(frame, condition)
        if found.height:
            yield found


def _of_key(view: View, key: Key) -> Iterator[pl.DataFrame]:
    row = key_row(view, key)
    if set(key) == set(view.keys):
        return view.of_key(row.select(view.keys))
    return (frame.join(row, on=list(key), how="semi", nulls_equal=True) for frame in view.pieces())


def _true_in(frame: pl.DataFrame, condition: CompiledScalar) -> pl.DataFrame:
    if condition.fails is not None:
        failed = frame.filter(condition.fails)
        if failed.height:
            row = ", ".join(f"{name} {value}" for name, value in failed.row(0, named=True).items())
            raise UserError(f"where {condition.text!r} has no result for {row[:300]}", remedy="exclude such rows first")
    return frame.filter(condition.value)


def _compiled(view: View, where: str) -> CompiledScalar:
    try:
        return compile_predicate(where, view.schema, has_time=False)
    except ExpressionError as error:
        columns = f"columns: {', '.join(view.schema.names) or 'none'}"
        raise UserError(f"where {where!r}: {error.message}", remedy=error.remedy or columns) from error


def first_rows(
    view: View, frames: Iterable[pl.DataFrame], count: int, *, total: int | None = None
) -> tuple[pl.DataFrame, int]:
    """The first `count` rows of frames, and the number of all. total: that number, if it is known: then no frame is
    read beyond them."""
    taken, seen = [pl.DataFrame(schema=dict(view.columns))], 0
    for frame in frames:
        if seen < count:
            taken.append(frame.head(count - seen))
        seen += frame.height
        if total is not None and seen >= count:
            return pl.concat(taken), total
    return pl.concat(taken), seen
