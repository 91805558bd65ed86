"""`cast`, `try_cast` and `::`: the possible conversions, and the rows for which they fail.

No cast raises for a frame: a value that does not fit becomes NULL, and a mask marks its row.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from sqlglot import exp

from headrace.core.errors import ExpressionError, UserError, did_you_mean
from headrace.core.types import (
    FLOAT_TYPES,
    INT_TYPES,
    TIMESTAMP,
    DataType,
    Decimal,
    ListOf,
    Primitive,
    Struct,
    Timestamp,
    parse_type,
    polars_type,
)
from headrace.expr.terms.coercion import is_number, is_time
from headrace.expr.terms.term import Term, bound, combine, with_type
from headrace.expr.terms.timestamps import date_text, parse_date, parse_timestamp, timestamp_text

_ALIASES: dict[str, DataType] = {
    "BOOLEAN": Primitive.BOOL,
    "INT": Primitive.INT32,
    "BIGINT": Primitive.INT64,
    "FLOAT": Primitive.FLOAT32,
    "DOUBLE": Primitive.FLOAT64,
    "TEXT": Primitive.STRING,
    "VARCHAR": Primitive.STRING,
    "BINARY": Primitive.BINARY,
    "VARBINARY": Primitive.BINARY,
    "BLOB": Primitive.BINARY,
    "DATE": Primitive.DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
}
_NAMES = (*(str(item) for item in Primitive), "decimal", "timestamp", "bigint", "integer", "double", "varchar")
DEFAULT_DECIMAL = Decimal(18, 3)


def target_type(node: exp.DataType) -> DataType:
    """The type that a cast names, in our words (int64, string, ..) or DuckDB's (bigint, varchar, ..)."""
    name = node.this.name if isinstance(node.this, exp.DType) else str(node.this)
    if name == "DECIMAL":
        numbers = [int(param.name) for param in node.expressions if param.name.isdigit()]
        if not numbers:
            return DEFAULT_DECIMAL
        return _named(f"decimal({numbers[0]},{numbers[1] if len(numbers) > 1 else 0})")
    if name in _ALIASES and not node.expressions:
        return _ALIASES[name]
    return _named(str(node.args.get("kind") or node.sql(dialect="duckdb")).lower())


def _named(text: str) -> DataType:
    try:
        return parse_type(text)[0]
    except UserError as error:
        if error.remedy is None:
            raise ExpressionError(error.message) from error
        hint = did_you_mean(text, _NAMES)
        valid = "valid types: " + ", ".join(_NAMES).replace("decimal,", "decimal(p,s),")
        raise ExpressionError(f"cannot cast to {text!r}", remedy=f"{hint} {valid}" if hint else valid) from error


@dataclass(frozen=True, slots=True)
class _Conversion:
    """A converted value; `fallible`: a NULL in it whose source was not NULL means that the cast failed."""

    value: pl.Expr
    fallible: bool = True


def cast(term: Term, dtype: DataType, *, attempt: bool) -> Term:
    """`term` as `dtype`. A value that does not fit fails the row, or is NULL with `attempt`."""
    if term.type is None and term.interval is None:
        return with_type(term, dtype)
    source = term.known_type()
    if source == dtype:
        return term
    fallible = _convert(term.value, source, dtype).fallible
    value = bound([term], lambda held: _convert(held.value, source, dtype).value, dtype)
    conversion = _Conversion(value, fallible)
    if not conversion.fallible:
        return combine([term], dtype, conversion.value)
    if attempt:
        return combine([term], dtype, conversion.value, nullable=True)
    return combine([term], dtype, conversion.value, fails=conversion.value.is_null() & term.value.is_not_null())


def _convert(value: pl.Expr, source: DataType, target: DataType) -> _Conversion:
    plain = value.cast(polars_type(target), strict=False)
    if source == Primitive.STRING:
        return _from_string(value, target)
    if target == Primitive.STRING:
        return _to_string(value, source)
    if is_number(source) and is_number(target):
        return _between_numbers(value, source, target)
    if source == Primitive.BOOL and (target in INT_TYPES or target in FLOAT_TYPES):
        return _Conversion(plain, fallible=False)
    if source in INT_TYPES and target == Primitive.BOOL:
        return _Conversion(value != 0, fallible=False)
    if is_time(source) and is_time(target):
        return _Conversion(plain, fallible=False)
    raise ExpressionError(f"{source} cannot be cast to {target}", remedy=_remedy(source, target))


def _remedy(source: DataType, target: DataType) -> str | None:
    if source in INT_TYPES and is_time(target):
        return "epoch_ms(x) makes a timestamp of milliseconds, to_timestamp(x) of seconds"
    if is_time(source) and is_number(target):
        return "epoch_ms(x) gives milliseconds, epoch(x) seconds"
    if isinstance(source, Struct | ListOf):
        return "take a field (a.b) or an element (a[1]) and cast that"
    return None


def _between_numbers(value: pl.Expr, source: DataType, target: DataType) -> _Conversion:
    plain = polars_type(target)
    if target in FLOAT_TYPES:
        narrowed = value.cast(plain, strict=False)
        if source == Primitive.FLOAT64 and target == Primitive.FLOAT32:
            # polars casts a float64 beyond the range of float32 to infinity
            return _Conversion(pl.when(~(narrowed.is_infinite() & value.is_finite())).then(narrowed))
        return _Conversion(narrowed, fallible=False)
    if target in INT_TYPES:
        if source in FLOAT_TYPES:
            return _Conversion(value.round(0, mode="half_to_even").cast(plain, strict=False))
        if isinstance(source, Decimal):
            whole = _nearest_whole(value) if source.scale else value
            # with fewer digits a value stays in the target's range, even rounded up
            digits = 9 if target == Primitive.INT32 else 18
            return _Conversion(whole.cast(plain, strict=False), fallible=source.precision - source.scale >= digits)
        return _Conversion(value.cast(plain, strict=False), fallible=target == Primitive.INT32)
    return _Conversion(value.cast(plain, strict=False))


def _nearest_whole(value: pl.Expr) -> pl.Expr:
    """A decimal to the nearest integer, halves away from zero. Avoids polars' rounding, which raises for the whole
    frame if a carry needs a 39th digit."""
    fraction = value - value.truncate(0)
    carry = pl.when(fraction >= 0.5).then(1).when(fraction <= -0.5).then(-1).otherwise(0)
    return value.cast(pl.Int128) + carry


def _from_string(value: pl.Expr, target: DataType) -> _Conversion:
    text = value.str.strip_chars()
    if target == Primitive.BINARY:
        return _Conversion(value.cast(pl.Binary), fallible=False)
    if target == Primitive.BOOL:
        lower = text.str.to_lowercase()
        yes = lower.is_in(pl.Series(["true", "t", "yes", "y", "1"]).implode())
        no = lower.is_in(pl.Series(["false", "f", "no", "n", "0"]).implode())
        return _Conversion(pl.when(yes).then(statement=True).when(no).then(statement=False))
    if target == Primitive.DATE:
        return _Conversion(parse_date(text))
    if isinstance(target, Timestamp):
        return _Conversion(parse_timestamp(text))
    if is_number(target):
        return _Conversion(text.cast(polars_type(target), strict=False))
    raise ExpressionError(f"string cannot be cast to {target}")


def _to_string(value: pl.Expr, source: DataType) -> _Conversion:
    if source in FLOAT_TYPES:
        return _Conversion(_float_text(value), fallible=False)
    if isinstance(source, Timestamp):
        return _Conversion(timestamp_text(value), fallible=False)
    if source == Primitive.DATE:
        return _Conversion(date_text(value), fallible=False)
    if source == Primitive.BINARY:
        return _Conversion(value.map_batches(_utf8, return_dtype=pl.String, is_elementwise=True))
    if is_number(source) or source == Primitive.BOOL:
        return _Conversion(value.cast(pl.String), fallible=False)
    raise ExpressionError(f"{source} cannot be cast to string", remedy=_remedy(source, Primitive.STRING))


def _float_text(value: pl.Expr) -> pl.Expr:
    """The shortest text that reads back as the same float; `nan`, `inf`, `-inf`."""
    return pl.when(value.is_nan()).then(pl.lit("nan")).otherwise(value.cast(pl.String))


def _utf8(column: pl.Series) -> pl.Series:
    """Bytes as text, NULL for invalid UTF-8. Polars raises for the whole column; only then values are decoded one by
    one."""
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series(column.name, [_utf8_or_none(value) for value in column], dtype=pl.String)


def _utf8_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
