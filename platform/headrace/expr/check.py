"""The last step of compiling: from a term to a compiled scalar, tried on an empty frame."""

from __future__ import annotations

import polars as pl

from headrace.core.batch import TS
from headrace.core.errors import ExpressionError
from headrace.core.types import Schema, polars_type
from headrace.expr.compiled import CompiledScalar
from headrace.expr.terms.term import Term


def checked(text: str, term: Term, schema: Schema) -> CompiledScalar:
    """The term as a compiled expression of exactly its type, with as many rows as the frame it is applied to.

    Raises ExpressionError if polars rejects it.
    """
    dtype = term.known_type()
    target = polars_type(dtype)
    frame = pl.DataFrame(schema={**schema.polars(), TS: pl.Int64})
    value = term.value
    fails = None if term.fails is None else term.fails.fill_null(value=False)
    try:
        made = frame.select(value.alias("value")).schema["value"]
        if made != target:
            value = value.cast(target)
        if fails is not None:
            assert frame.select(fails.alias("fails")).schema["fails"] == pl.Boolean, "a mask is boolean"
    except pl.exceptions.PolarsError as error:
        raise ExpressionError(f"polars refuses this expression: {str(error).splitlines()[0]}") from error
    return CompiledScalar(
        text=text,
        type=dtype,
        nullable=term.nullable,
        value=_for_each_row(value),
        fails=None if fails is None else _for_each_row(fails),
        columns=term.columns,
        uses_time=term.uses_time,
        not_replayable=term.not_replayable,
    )


def _for_each_row(value: pl.Expr) -> pl.Expr:
    """Ties a constant to the frame's height: `select` does not stretch an expression that reads no column."""
    if value.meta.root_names():
        return value
    return pl.when(pl.int_range(pl.len()) >= 0).then(value)
