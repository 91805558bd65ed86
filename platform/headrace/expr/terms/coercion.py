"""Implicit conversion: the types that may be combined, and their common type.

Numbers combine with numbers and dates with timestamps; every other type combines only with itself. Nothing converts
implicitly from or to a string.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import ExpressionError
from headrace.core.types import (
    FLOAT_TYPES,
    INT_TYPES,
    TIMESTAMP,
    DataType,
    Decimal,
    Primitive,
    Timestamp,
)
from headrace.expr.terms.term import Term, with_type

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
PRECISION_MAX = 38


def is_number(dtype: DataType | None) -> bool:
    """Whether the type is an integer, float or decimal type."""
    return dtype in INT_TYPES or dtype in FLOAT_TYPES or isinstance(dtype, Decimal)


def is_time(dtype: DataType | None) -> bool:
    """Whether the type is a timestamp or a date."""
    return isinstance(dtype, Timestamp) or dtype == Primitive.DATE


def as_decimal(dtype: DataType) -> Decimal:
    """The decimal type that holds every value of a decimal or integer type."""
    if isinstance(dtype, Decimal):
        return dtype
    return Decimal(10 if dtype == Primitive.INT32 else 19, 0)


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type in which values of both are compared or share a column; None if there is none."""
    if left == right:
        return left
    if is_time(left) and is_time(right):
        return TIMESTAMP
    if not (is_number(left) and is_number(right)):
        return None
    if left in INT_TYPES and right in INT_TYPES:
        return Primitive.INT64
    if left in FLOAT_TYPES or right in FLOAT_TYPES:
        return Primitive.FLOAT64
    one, two = as_decimal(left), as_decimal(right)
    scale = max(one.scale, two.scale)
    precision = max(one.precision - one.scale, two.precision - two.scale) + scale
    return Decimal(precision, scale) if precision <= PRECISION_MAX else Primitive.FLOAT64


def unify(terms: Sequence[Term], what: str) -> tuple[list[Term], DataType]:
    """The terms in one common type. `what`: the enclosing construct, for the error message."""
    typed = [term for term in terms if term.type is not None or term.interval is not None]
    if not typed:
        raise ExpressionError(f"{what}: every value is NULL", remedy="give one a type: cast(null as string)")
    common = typed[0].known_type()
    for term in typed[1:]:
        met = common_type(common, term.known_type())
        if met is None:
            raise mismatch(what, common, term.known_type())
        common = met
    return [with_type(term, common) for term in terms], common


def unify_for_comparison(left: Term, right: Term, what: str) -> tuple[Term, Term]:
    """Both sides in one type. An integer literal that fits becomes int32 beside an int32 column, which avoids a
    cast."""
    for one, other in ((left, right), (right, left)):
        small = isinstance(one.literal, int) and INT32_MIN <= one.literal <= INT32_MAX
        if other.type == Primitive.INT32 and one.type == Primitive.INT64 and small:
            narrow = with_type(one, Primitive.INT32)
            return (narrow, other) if one is left else (other, narrow)
    (first, second), _ = unify([left, right], what)
    return first, second


def mismatch(what: str, left: DataType, right: DataType) -> ExpressionError:
    """The error for two types without a common type, with the cast that resolves it."""
    pair = (left, right)
    other = next((item for item in pair if item != Primitive.STRING), left)
    if Primitive.STRING in pair and isinstance(other, Timestamp):
        remedy = "write a typed literal, timestamp '2013-01-01 00:00:00', or cast(.. as timestamp)"
    elif Primitive.STRING in pair and other == Primitive.DATE:
        remedy = "write a typed literal, date '2013-01-01', or cast(.. as date)"
    elif Primitive.STRING in pair:
        remedy = f"cast one side: cast(.. as {other}) or cast(.. as string)"
    else:
        remedy = f"cast one side: cast(.. as {left})"
    return ExpressionError(f"{what}: {left} and {right} do not mix", remedy=remedy)
