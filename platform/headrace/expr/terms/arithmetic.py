"""`+ - * / // %` and unary minus: result types, and the rows in which the result does not fit.

Polars wraps integers silently and raises for a whole frame when a decimal overflows; here both become a mask. An
operand that is a literal makes the mask a plain range test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import FLOAT_TYPES, INT_TYPES, DataType, Decimal, Primitive, polars_type
from headrace.expr.terms.coercion import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    PRECISION_MAX,
    as_decimal,
    common_type,
    is_number,
    mismatch,
)
from headrace.expr.terms.elementwise import quotient
from headrace.expr.terms.term import Term, aligned, bound, combine, literal, with_type

if TYPE_CHECKING:
    import numpy as np

_NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division", "//": "division", "%": "modulo"}


def arithmetic(symbol: str, left: Term, right: Term) -> Term:
    """`left symbol right` over numbers."""
    left, right = _numbers(symbol, left, right)
    one, two = left.known_type(), right.known_type()
    if symbol == "/":
        return _divide(left, right)
    if symbol == "//" and not (one in INT_TYPES and two in INT_TYPES):
        raise ExpressionError(f"// divides integers, not {one} by {two}", remedy="write floor(a / b)")
    common = common_type(one, two)
    assert common is not None, "numbers have a common type"
    if common in INT_TYPES:
        return _integers(symbol, with_type(left, common), with_type(right, common), common)
    if one in FLOAT_TYPES or two in FLOAT_TYPES:
        return _floats(symbol, left, right, common)
    if symbol == "%":
        return _decimal_modulo(left, right, common)
    return _decimals(symbol, left, right)


def negate(term: Term) -> Term:
    """Unary minus."""
    if term.type is None and term.interval is None:
        return with_type(term, Primitive.INT64)
    dtype = term.known_type()
    if not is_number(dtype):
        raise ExpressionError(f"minus needs a number, not {dtype}")
    if isinstance(term.literal, int | float):
        return literal(-term.literal, dtype)
    fails = None
    if dtype in INT_TYPES:
        # only the lowest integer has no positive counterpart
        lowest = INT32_MIN if dtype == Primitive.INT32 else INT64_MIN
        fails = term.value == pl.lit(lowest, dtype=polars_type(dtype))
    return combine([term], dtype, -term.value, fails=fails)


def _numbers(symbol: str, left: Term, right: Term) -> tuple[Term, Term]:
    for term in (left, right):
        if term.type is not None and not is_number(term.type):
            other = right if term is left else left
            if is_number(other.type):
                raise mismatch(_NAMES[symbol], left.known_type(), right.known_type())
            remedy = "join strings with ||" if symbol == "+" and term.type == Primitive.STRING else None
            raise ExpressionError(f"{_NAMES[symbol]} needs numbers, not {term.type_name}", remedy=remedy)
    if left.type is None:
        left = with_type(left, right.type or Primitive.INT64)
    if right.type is None:
        right = with_type(right, left.known_type())
    return left, right


def _divide(left: Term, right: Term) -> Term:
    both32 = left.type == right.type == Primitive.FLOAT32
    dtype = Primitive.FLOAT32 if both32 else Primitive.FLOAT64
    left, right = with_type(left, dtype), with_type(right, dtype)
    return combine([left, right], dtype, quotient(left.value, right.value, polars_type(dtype)))


def _floats(symbol: str, left: Term, right: Term, dtype: DataType) -> Term:
    left, right = with_type(left, dtype), with_type(right, dtype)
    match symbol:
        case "+":
            value = left.value + right.value
        case "-":
            value = left.value - right.value
        case "*":
            value = left.value * right.value
        case _:
            value = pl.map_batches([left.value, right.value], _remainders, return_dtype=polars_type(dtype))
    return combine([left, right], dtype, value)


def _integers(symbol: str, left: Term, right: Term, dtype: DataType) -> Term:
    parts = [left, right]
    match symbol:
        case "+":
            value = left.value + right.value
        case "-":
            value = left.value - right.value
        case "*":
            value = left.value * right.value
        case _:
            return _divide_integers(symbol, left, right, dtype)
    return combine(parts, dtype, value, fails=_overflow(symbol, left, right, value, dtype))


def _overflow(symbol: str, left: Term, right: Term, value: pl.Expr, dtype: DataType) -> pl.Expr | None:
    if dtype == Primitive.INT32:
        wide_left, wide_right = left.value.cast(pl.Int64), right.value.cast(pl.Int64)
        wide = {"+": wide_left + wide_right, "-": wide_left - wide_right, "*": wide_left * wide_right}[symbol]
        return ~wide.is_between(pl.lit(INT32_MIN, dtype=pl.Int64), pl.lit(INT32_MAX, dtype=pl.Int64))
    if isinstance(right.literal, int):
        return _outside(symbol, left.value, right.literal)
    if isinstance(left.literal, int) and symbol != "-":
        return _outside(symbol, right.value, left.literal)
    if symbol == "+":
        # a sum that overflows differs in sign from both operands
        return ((left.value ^ value) & (right.value ^ value)) < 0
    if symbol == "-":
        # a difference overflows only for operands of different sign, and then differs in sign from the left one
        return ((left.value ^ right.value) & (left.value ^ value)) < 0
    # exact: the product of two int64 fits into 128 bits
    return left.value.cast(pl.Int128) * right.value.cast(pl.Int128) != value.cast(pl.Int128)


def _outside(symbol: str, value: pl.Expr, constant: int) -> pl.Expr | None:
    """Mask of rows where `value symbol constant` exceeds int64."""
    if constant == 0 or (symbol == "*" and constant == 1):
        return None
    if symbol == "-":
        constant = -constant
    if symbol == "*":
        ends = (INT64_MIN, INT64_MAX) if constant > 0 else (INT64_MAX, INT64_MIN)
        # ceiling and floor of the ends over the constant; a negative constant swaps the ends
        low, high = -(-ends[0] // constant), ends[1] // constant
    else:
        low, high = INT64_MIN - constant, INT64_MAX - constant
    low, high = max(INT64_MIN, low), min(INT64_MAX, high)
    if low == INT64_MIN:
        return value > pl.lit(high, dtype=pl.Int64)
    if high == INT64_MAX:
        return value < pl.lit(low, dtype=pl.Int64)
    return ~value.is_between(pl.lit(low, dtype=pl.Int64), pl.lit(high, dtype=pl.Int64))


def _divide_integers(symbol: str, left: Term, right: Term, dtype: DataType) -> Term:
    """Division that rounds toward zero, and its remainder; polars' own floor.

    Computed by numpy, where polars would need several passes and divisions.
    """
    one, two = left.value, right.value
    if isinstance(right.literal, int) and right.literal > 0:
        return combine([left, right], dtype, bound([left], _by_positive(symbol, right.literal), dtype))
    kernel = _quotients if symbol == "//" else _remainders
    value = pl.map_batches([one, two], kernel, return_dtype=polars_type(dtype))
    fails = None
    if not isinstance(right.literal, int) or right.literal in (0, -1):
        fails = (two == 0) & one.is_not_null()
        if symbol == "//":
            lowest = INT32_MIN if dtype == Primitive.INT32 else INT64_MIN
            fails = fails | ((two == -1) & (one == pl.lit(lowest, dtype=polars_type(dtype))))
    return combine([left, right], dtype, value, fails=fails)


def _by_positive(symbol: str, divisor: int) -> Callable[[Term], pl.Expr]:
    """Division by a positive literal in polars, which is fast for a constant divisor."""

    def value(term: Term) -> pl.Expr:
        dtype = polars_type(term.known_type())
        constant = pl.lit(divisor, dtype=dtype)
        below = term.value < 0
        if symbol == "//":
            # divisor - 1 turns the floor into a ceiling; the sum cannot overflow, because the value is negative
            return (term.value + pl.when(below).then(constant - 1).otherwise(pl.lit(0, dtype=dtype))) // constant
        floored = term.value % constant
        return pl.when(below & (floored != 0)).then(floored - constant).otherwise(floored)

    return value


def _remainders(pair: Sequence[pl.Series]) -> pl.Series:
    """Exact remainders with the sign of the dividend. For an integer divisor 0 the value is arbitrary."""
    import numpy as np  # for rows; most checks need none

    def remainders(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if left.dtype.kind == "i":
            # the remainder by -1 is 0, as by 1; the lowest integer by -1 would overflow
            right = np.where((right == 0) | (right == -1), 1, right)
        found: np.ndarray[Any, Any] = np.fmod(left, right)
        return found

    return _by_numpy(pair, remainders)


def _quotients(pair: Sequence[pl.Series]) -> pl.Series:
    """Integer quotients, rounded toward zero. For divisor 0 the value is arbitrary."""
    import numpy as np

    def quotients(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        divisor = np.where(right == 0, 1, right)
        floor, rest = np.divmod(left, divisor)
        # from the floor to zero: one more if the signs differ and there is a rest
        found: np.ndarray[Any, Any] = floor + ((rest != 0) & ((left ^ divisor) < 0))
        return found

    return _by_numpy(pair, quotients)


def _by_numpy(pair: Sequence[pl.Series], kernel: Callable[..., np.ndarray[Any, Any]]) -> pl.Series:
    """Applies a kernel to two columns, one of which may be a constant; NULL where either is."""
    import numpy as np

    left, right = aligned(pair)
    missing = left.is_null() | right.is_null()
    with np.errstate(all="ignore"):
        result = kernel(left.fill_null(0).to_numpy(), right.fill_null(1).to_numpy())
    found = pl.Series(left.name, result, dtype=left.dtype)
    if not missing.any():
        return found
    return pl.select(pl.when(~pl.lit(missing)).then(pl.lit(found)).alias(left.name)).to_series()


def _decimals(symbol: str, left: Term, right: Term) -> Term:
    """Exact `+ - *`. The result has the digits that the operation can need, at most 38; only at 38 can it overflow."""
    one, two = as_decimal(left.known_type()), as_decimal(right.known_type())
    if symbol == "*":
        scale, precision = one.scale + two.scale, one.precision + two.precision
    else:
        scale = max(one.scale, two.scale)
        precision = max(one.precision - one.scale, two.precision - two.scale) + scale + 1
    if scale > PRECISION_MAX:
        raise ExpressionError(f"{one} times {two} has {scale} decimal places; 38 is the most", remedy="cast one side")
    dtype = Decimal(min(precision, PRECISION_MAX), scale)
    held = pl.Decimal(PRECISION_MAX, scale)
    limit = 10.0 ** (PRECISION_MAX - scale) if precision > PRECISION_MAX else None

    def lost(one: Term, two: Term) -> pl.Expr:
        assert limit is not None, "the result may be too large"
        a, b = one.value.cast(held, strict=False), two.value.cast(held, strict=False)
        unheld = (a.is_null() & one.value.is_not_null()) | (b.is_null() & two.value.is_not_null())
        return _too_large(symbol, one.value, two.value, limit) | unheld

    def exact(one: Term, two: Term) -> pl.Expr:
        a, b = one.value.cast(held, strict=False), two.value.cast(held, strict=False)
        if limit is not None:
            fits = ~lost(one, two)
            a, b = pl.when(fits).then(a), pl.when(fits).then(b)
        value = a + b if symbol == "+" else a - b if symbol == "-" else a * b
        return value.cast(polars_type(dtype), strict=False)

    parts = [left, right]
    fails = None if limit is None else bound(parts, lost, Primitive.BOOL)
    return combine(parts, dtype, bound(parts, exact, dtype), fails=fails)


def _too_large(symbol: str, left: pl.Expr, right: pl.Expr, limit: float) -> pl.Expr:
    """Mask of rows whose result, in floats, comes within rounding of 38 digits. The test fires slightly early, because
    polars would raise for the whole frame."""
    a, b = left.cast(pl.Float64), right.cast(pl.Float64)
    size = a * b if symbol == "*" else a + b if symbol == "+" else a - b
    return size.abs() >= limit * (1 - 1e-12)


def _decimal_modulo(left: Term, right: Term, dtype: DataType) -> Term:
    """Remainder with the sign of the dividend, in the common type."""
    if not isinstance(dtype, Decimal):
        raise ExpressionError(f"{left.type_name} % {right.type_name} needs more than 38 digits", remedy="cast one side")
    a, b = with_type(left, dtype), with_type(right, dtype)

    def remainders(one: Term, two: Term) -> pl.Expr:
        floored = one.value % pl.when(two.value != 0).then(two.value)
        # polars' remainder has the sign of the divisor
        signs_differ = (floored != 0) & ((one.value < 0) != (two.value < 0))
        value = pl.when(signs_differ).then(floored - two.value).otherwise(floored)
        return value.cast(polars_type(dtype), strict=False)

    fails = (b.value == 0) & a.value.is_not_null()
    return combine([a, b], dtype, bound([a, b], remainders, dtype), fails=fails)
