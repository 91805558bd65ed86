"""Numbers: rounding, roots and logarithms, trigonometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from typing import Final, Literal

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import DataType, Decimal, Primitive, polars_type
from headrace.expr.functions.overload import Function, Kind, Overload, plain, same
from headrace.expr.terms.arithmetic import arithmetic
from headrace.expr.terms.coercion import INT32_MIN, INT64_MIN, PRECISION_MAX
from headrace.expr.terms.elementwise import power, quotient
from headrace.expr.terms.pattern import literal_integer
from headrace.expr.terms.term import Term, literal

_LOWEST = {Primitive.INT32: INT32_MIN, Primitive.INT64: INT64_MIN}
_HALF: Final = "half_away_from_zero"


def _lowest(term: Term) -> pl.Expr:
    dtype = term.known_type()
    assert isinstance(dtype, Primitive), "an integer"
    return term.value == pl.lit(_LOWEST[dtype], dtype=polars_type(dtype))


def _sign(value: pl.Expr) -> pl.Expr:
    sign = pl.when(value > 0).then(pl.lit(1, dtype=pl.Int32)).when(value < 0).then(pl.lit(-1, dtype=pl.Int32))
    return pl.when(value.is_not_null()).then(sign.otherwise(pl.lit(0, dtype=pl.Int32)))


def _float_sign(value: pl.Expr) -> pl.Expr:
    return _sign(value.fill_nan(0.0))


def _rounded_decimal(terms: Sequence[Term]) -> DataType:
    """Rounding may carry into one more digit."""
    dtype = terms[0].known_type()
    assert isinstance(dtype, Decimal), "a decimal"
    return Decimal(min(PRECISION_MAX, dtype.precision + 1), dtype.scale) if dtype.scale else dtype


def _no_room(term: Term, *_: Term) -> pl.Expr | None:
    """Mask of values where rounding could carry into a 39th digit; polars would raise for the whole frame."""
    dtype = term.known_type()
    assert isinstance(dtype, Decimal), "a decimal"
    if dtype.precision < PRECISION_MAX or not dtype.scale:
        return None
    limit = pl.lit(Number(10 ** (PRECISION_MAX - dtype.scale) - 1), dtype=pl.Decimal(PRECISION_MAX, dtype.scale))
    return (term.value > limit) | (term.value < -limit)


def _with_room(term: Term) -> pl.Expr:
    full = _no_room(term)
    return term.value if full is None else pl.when(~full).then(term.value)


def _on_decimal(build: Callable[[pl.Expr], pl.Expr]) -> Overload:
    def value(term: Term) -> pl.Expr:
        if not _scale(term):
            return term.value
        return build(_with_room(term)).cast(polars_type(_rounded_decimal([term])), strict=False)

    return Overload((Kind.DECIMAL,), _rounded_decimal, value, fails=_no_room)


def _scale(term: Term) -> int:
    return term.type.scale if isinstance(term.type, Decimal) else 0


def _whole(name: str, describes: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    """ceil, floor, trunc: an integer is unchanged."""
    return Function(
        name,
        describes,
        (
            Overload((Kind.INT32,), Primitive.INT32, plain(lambda x: x)),
            Overload((Kind.INT,), Primitive.INT64, plain(lambda x: x)),
            Overload((Kind.FLOAT32,), Primitive.FLOAT32, plain(build)),
            _on_decimal(build),
            Overload((Kind.FLOAT,), Primitive.FLOAT64, plain(build)),
        ),
    )


def _round_float(term: Term, digits: Term) -> pl.Expr:
    count = _digits(digits)
    if count >= 0:
        return term.value.round(count, mode=_HALF)
    dtype = polars_type(term.known_type())
    step = pl.lit(10.0**-count, dtype=dtype)
    return quotient(term.value, step, dtype).round(0, mode=_HALF) * step


def _round_integer(term: Term, digits: Term) -> pl.Expr:
    if _digits(digits) < 0:
        raise ExpressionError("round of an integer takes no negative digits", remedy="round(cast(x as float64), -1)")
    return term.value


def _round_decimal(term: Term, digits: Term) -> pl.Expr:
    count = _digits(digits)
    if count < 0:
        raise ExpressionError("round of a decimal takes no negative digits")
    if count >= _scale(term):
        return term.value.cast(polars_type(_rounded_decimal([term])), strict=False)
    return _with_room(term).round(count, mode=_HALF).cast(polars_type(_rounded_decimal([term])), strict=False)


def _digits(term: Term) -> int:
    count = literal_integer(term, "the number of digits")
    if not -300 <= count <= 300:
        raise ExpressionError("round takes -300 to 300 digits")
    return count


_ROUND = Function(
    "round",
    "to the nearest whole number, or to n digits after the point; halves away from zero",
    (
        Overload((Kind.INT32,), Primitive.INT32, plain(lambda x: x)),
        Overload((Kind.INT,), Primitive.INT64, plain(lambda x: x)),
        Overload((Kind.FLOAT32,), Primitive.FLOAT32, plain(lambda x: x.round(0, mode=_HALF))),
        _on_decimal(lambda x: x.round(0, mode=_HALF)),
        Overload((Kind.FLOAT,), Primitive.FLOAT64, plain(lambda x: x.round(0, mode=_HALF))),
        Overload((Kind.INT32, Kind.COUNT), Primitive.INT32, _round_integer),
        Overload((Kind.INT, Kind.COUNT), Primitive.INT64, _round_integer),
        Overload((Kind.FLOAT32, Kind.COUNT), Primitive.FLOAT32, _round_float),
        Overload((Kind.DECIMAL, Kind.COUNT), _rounded_decimal, _round_decimal, fails=_no_room),
        Overload((Kind.FLOAT, Kind.COUNT), Primitive.FLOAT64, _round_float),
    ),
)

_ABS = Function(
    "abs",
    "absolute value; fails where an integer's does not fit",
    (
        Overload((Kind.INT32,), Primitive.INT32, plain(lambda x: x.abs()), fails=_lowest),
        Overload((Kind.INT,), Primitive.INT64, plain(lambda x: x.abs()), fails=_lowest),
        Overload((Kind.FLOAT32,), Primitive.FLOAT32, plain(lambda x: x.abs())),
        Overload((Kind.DECIMAL,), same, plain(lambda x: x.abs())),
        Overload((Kind.FLOAT,), Primitive.FLOAT64, plain(lambda x: x.abs())),
    ),
)

_SIGN = Function(
    "sign",
    "-1, 0 or 1; 0 for NaN",
    (
        Overload((Kind.INT,), Primitive.INT32, plain(_sign)),
        Overload((Kind.DECIMAL,), Primitive.INT32, plain(_sign)),
        Overload((Kind.FLOAT32,), Primitive.INT32, plain(_float_sign)),
        Overload((Kind.FLOAT,), Primitive.INT32, plain(_float_sign)),
    ),
)


def _modulo(name: str) -> Function:
    def operator(left: Term, right: Term) -> pl.Expr:
        return arithmetic("%", left, right).value

    def fails(left: Term, right: Term) -> pl.Expr | None:
        return arithmetic("%", left, right).fails

    return Function(
        name,
        "remainder with the sign of the dividend, as the operator `%`",
        (
            Overload((Kind.INT32, Kind.INT32), Primitive.INT32, operator, fails=fails),
            Overload((Kind.INT, Kind.INT), Primitive.INT64, operator, fails=fails),
            Overload((Kind.FLOAT, Kind.FLOAT), Primitive.FLOAT64, operator),
        ),
    )


def _of_float(name: str, describes: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    return Function(name, describes, (Overload((Kind.FLOAT,), Primitive.FLOAT64, plain(build)),))


def _logarithm(base: Literal["log2", "log10"]) -> Callable[[pl.Expr], pl.Expr]:
    """Computed by numpy: polars divides natural logarithms, which is less exact."""

    def column(series: pl.Series) -> pl.Series:
        import numpy as np  # for rows; most checks need none

        logarithm: Callable[[pl.Series], pl.Series] = np.log2 if base == "log2" else np.log10
        with np.errstate(all="ignore"):
            return logarithm(series)

    return lambda value: value.map_batches(column, return_dtype=pl.Float64, is_elementwise=True)


def _power(name: str) -> Function:
    form = Overload((Kind.FLOAT, Kind.FLOAT), Primitive.FLOAT64, plain(power))
    return Function(name, "x to the power y, as floats", (form,))


def _test(name: str, describes: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    return Function(
        name,
        describes,
        (
            Overload((Kind.FLOAT32,), Primitive.BOOL, plain(build)),
            Overload((Kind.FLOAT,), Primitive.BOOL, plain(build)),
        ),
    )


def _pi() -> pl.Expr:
    return literal(math.pi, Primitive.FLOAT64).value


NUMERIC: tuple[Function, ...] = (
    _ABS,
    _whole("ceil", "the next whole number up", lambda x: x.ceil()),
    _whole("ceiling", "ceil", lambda x: x.ceil()),
    _whole("floor", "the next whole number down", lambda x: x.floor()),
    _whole("trunc", "the whole number toward zero", lambda x: x.truncate(0)),
    _ROUND,
    _SIGN,
    _modulo("mod"),
    _power("pow"),
    _power("power"),
    _of_float("sqrt", "square root; NaN below 0", lambda x: x.sqrt()),
    _of_float("cbrt", "cube root", lambda x: x.cbrt()),
    _of_float("exp", "e to the power x", lambda x: x.exp()),
    _of_float("ln", "natural logarithm; -inf at 0, NaN below", lambda x: x.log()),
    _of_float("log", "logarithm of base 10", _logarithm("log10")),
    _of_float("log10", "logarithm of base 10", _logarithm("log10")),
    _of_float("log2", "logarithm of base 2", _logarithm("log2")),
    _of_float("sin", "sine of radians", lambda x: x.sin()),
    _of_float("cos", "cosine of radians", lambda x: x.cos()),
    _of_float("tan", "tangent of radians", lambda x: x.tan()),
    _of_float("asin", "arcsine; NaN outside -1 to 1", lambda x: x.arcsin()),
    _of_float("acos", "arccosine; NaN outside -1 to 1", lambda x: x.arccos()),
    _of_float("atan", "arctangent", lambda x: x.arctan()),
    Function(
        "atan2",
        "angle of the point (x, y): atan2(y, x)",
        (Overload((Kind.FLOAT, Kind.FLOAT), Primitive.FLOAT64, plain(pl.arctan2)),),
    ),
    _of_float("sinh", "hyperbolic sine", lambda x: x.sinh()),
    _of_float("cosh", "hyperbolic cosine", lambda x: x.cosh()),
    _of_float("tanh", "hyperbolic tangent", lambda x: x.tanh()),
    _of_float("radians", "degrees to radians", lambda x: x.radians()),
    _of_float("degrees", "radians to degrees", lambda x: x.degrees()),
    Function("pi", "3.14159..", (Overload((), Primitive.FLOAT64, _pi),)),
    _test("isnan", "whether it is NaN", lambda x: x.is_nan()),
    _test("isinf", "whether it is an infinity", lambda x: x.is_infinite()),
    _test("isfinite", "whether it is neither NaN nor an infinity", lambda x: x.is_finite()),
)
