"""The closed table of scalar functions: a name that is not in it is an error.

`FUNCTIONS` are ordinary: each argument is a value. `FORMS` receive their arguments as terms, because NULLs or failures
count differently in them (coalesce), because they accept any number of arguments, or because they read the row's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.batch import TS
from headrace.core.errors import ExpressionError
from headrace.core.types import TIMESTAMP, ListOf, Primitive
from headrace.expr.functions.numeric import NUMERIC
from headrace.expr.functions.overload import Function
from headrace.expr.functions.temporal import TEMPORAL
from headrace.expr.functions.text import TEXT
from headrace.expr.terms.cast import cast
from headrace.expr.terms.coercion import unify_for_comparison
from headrace.expr.terms.comparison import contains_float, greatest
from headrace.expr.terms.conditional import choose, coalesce, nullif
from headrace.expr.terms.term import Term, combine
from headrace.expr.terms.timestamps import STAMP

FUNCTIONS: dict[str, Function] = {item.name: item for item in (*NUMERIC, *TEXT, *TEMPORAL)}
assert len(FUNCTIONS) == len(NUMERIC) + len(TEXT) + len(TEMPORAL), "function names are unique"

RANDOM_REASON = "random() gives other numbers at each run"
UUID_REASON = "uuid() gives other values at each run"


@dataclass(frozen=True, slots=True)
class Form:
    """A function that receives its arguments as terms. `signature` is for docs and error messages."""

    name: str
    signature: str
    describes: str
    arguments: tuple[int, int | None]
    build: Callable[[Sequence[Term]], Term]

    def call(self, terms: Sequence[Term]) -> Term:
        """The call as a term. Raises ExpressionError for a wrong number of arguments."""
        low, high = self.arguments
        if len(terms) < low or (high is not None and len(terms) > high):
            raise ExpressionError(f"{self.name} does not take {len(terms)} arguments", remedy=f"write {self.signature}")
        return self.build(terms)


def _as_text(term: Term) -> Term:
    if term.type == Primitive.BINARY:
        raise ExpressionError("binary does not join with strings", remedy="cast it: cast(x as string)")
    return cast(term, Primitive.STRING, attempt=False)


def join_strings(left: Term, right: Term) -> Term:
    """`a || b`: NULL where either is; numbers and times are converted to text."""
    if Primitive.STRING not in (left.type, right.type) and (left.type, right.type) != (None, None):
        raise ExpressionError(
            f"|| joins strings, not {left.type_name} and {right.type_name}", remedy="use concat(a, b)"
        )
    one, two = _as_text(left), _as_text(right)
    return combine([one, two], Primitive.STRING, pl.concat_str(one.value, two.value))


def _concat(terms: Sequence[Term]) -> Term:
    texts = [_as_text(term) for term in terms]
    value = pl.concat_str([term.value for term in texts], ignore_nulls=True)
    return combine(texts, Primitive.STRING, value, nullable=False)


def _concat_ws(terms: Sequence[Term]) -> Term:
    separator, *rest = [_as_text(term) for term in terms]
    if not isinstance(separator.literal, str):
        raise ExpressionError("the separator of concat_ws must be a string literal")
    value = pl.concat_str([term.value for term in rest], separator=separator.literal, ignore_nulls=True)
    return combine(rest, Primitive.STRING, value, nullable=False)


def _now(_: Sequence[Term]) -> Term:
    return Term(TIMESTAMP, (pl.col(TS) * 1000).cast(STAMP), nullable=False, uses_time=True)


def _random(_: Sequence[Term]) -> Term:
    value = pl.int_range(pl.len()).map_batches(_random_floats, return_dtype=pl.Float64)
    return Term(Primitive.FLOAT64, value, nullable=False, not_replayable=RANDOM_REASON)


def _random_floats(rows: pl.Series) -> pl.Series:
    import numpy as np  # for rows; most checks need none

    return pl.Series(rows.name, np.random.default_rng().random(len(rows)))


def _uuid(_: Sequence[Term]) -> Term:
    text = pl.int_range(pl.len()).map_batches(_random_bytes, return_dtype=pl.Binary).bin.encode("hex")
    parts = [text.str.slice(start, size) for start, size in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
    return Term(Primitive.STRING, pl.concat_str(parts, separator="-"), nullable=False, not_replayable=UUID_REASON)


def _random_bytes(rows: pl.Series) -> pl.Series:
    """16 random bytes per row, with the version and variant bits of a UUID of version 4 (RFC 9562, 5.4)."""
    import numpy as np

    data = np.random.default_rng().integers(0, 256, size=(len(rows), 16), dtype=np.uint8)
    data[:, 6] = data[:, 6] & 0x0F | 0x40
    data[:, 8] = data[:, 8] & 0x3F | 0x80
    return pl.Series(rows.name, pl.Series(data.view("V16").ravel().tolist(), dtype=pl.Binary))


def _list_contains(terms: Sequence[Term]) -> Term:
    items, wanted = terms
    if not isinstance(items.type, ListOf):
        raise ExpressionError(f"list_contains needs a list, not {items.type_name}")
    inner = items.type.inner
    element, value = unify_for_comparison(Term(inner, pl.element()), wanted, "list_contains")
    if element.type != inner or contains_float(inner):
        raise ExpressionError(
            f"list_contains: a list of {inner} is searched for {wanted.type_name}",
            remedy=f"cast the value: cast(.. as {inner})",
        )
    found = items.value.list.contains(value.value)
    known = pl.when(value.value.is_not_null()).then(found) if value.nullable else found
    return combine([items, value], Primitive.BOOL, known)


def element_of(items: Term, index: Term) -> Term:
    """`list[i]`: the i-th element counted from 1, or from the end for negative i; NULL if there is none."""
    if not isinstance(items.type, ListOf):
        raise ExpressionError(f"[..] takes an element of a list, not of {items.type_name}")
    if index.type not in (Primitive.INT32, Primitive.INT64):
        raise ExpressionError(f"a place in a list is an integer, not {index.type_name}")
    place = index.value.cast(pl.Int64)
    zero_based: pl.Expr = pl.when(place > 0).then(place - 1).when(place < 0).then(place)
    if isinstance(index.literal, int):
        number = index.literal
        zero_based = pl.lit(number - 1 if number > 0 else number if number < 0 else None, dtype=pl.Int64)
    value = items.value.list.get(zero_based, null_on_oob=True)
    return combine([items, index], items.type.inner, value, nullable=True)


_FORMS = (
    Form("coalesce", "coalesce(a, b, ..)", "the first value that is not NULL", (1, None), coalesce),
    Form("ifnull", "ifnull(a, b)", "coalesce of two", (2, 2), coalesce),
    Form("nullif", "nullif(a, b)", "NULL where both are equal, else a", (2, 2), lambda t: nullif(t[0], t[1])),
    Form("if", "if(condition, a, b)", "a where the condition is true, else b", (2, 3), choose),
    Form("iff", "iff(condition, a, b)", "if", (2, 3), choose),
    Form(
        "greatest",
        "greatest(a, b, ..)",
        "the largest value that is not NULL",
        (1, None),
        lambda t: greatest(t, least=False),
    ),
    Form(
        "least", "least(a, b, ..)", "the smallest value that is not NULL", (1, None), lambda t: greatest(t, least=True)
    ),
    Form("concat", "concat(a, b, ..)", "all values as one text, NULLs left out", (1, None), _concat),
    Form(
        "concat_ws",
        "concat_ws('sep', a, b, ..)",
        "the values that are not NULL, with a separator between",
        (2, None),
        _concat_ws,
    ),
    Form("now", "now()", "the row's event time", (0, 0), _now),
    Form("random", "random()", "a number from 0 up to 1; not replayable", (0, 0), _random),
    Form("uuid", "uuid()", "a random UUID; not replayable", (0, 0), _uuid),
    Form(
        "list_contains", "list_contains(list, x)", "whether x is an element; no lists of floats", (2, 2), _list_contains
    ),
    Form(
        "list_extract",
        "list_extract(list, i)",
        "`list[i]`: the i-th element from 1, from the end for negative i",
        (2, 2),
        lambda t: element_of(t[0], t[1]),
    ),
)
FORMS: dict[str, Form] = {item.name: item for item in _FORMS}
