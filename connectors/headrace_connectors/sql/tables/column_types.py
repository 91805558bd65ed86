"""Maps our types to column types: for tables that we create, and for existing ones."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from headrace.core.types import DataType, Decimal, ListOf, Primitive, Struct, Timestamp

SqlType = sa.types.TypeEngine[Any]

_MADE: dict[Primitive, SqlType] = {
    Primitive.BOOL: sa.Boolean(),
    Primitive.INT32: sa.Integer(),
    Primitive.INT64: sa.BigInteger(),
    Primitive.FLOAT32: sa.REAL(),
    Primitive.FLOAT64: sa.Double(),
    Primitive.STRING: sa.Text(),
    Primitive.BINARY: sa.LargeBinary(),
    Primitive.DATE: sa.Date(),
}
_SQLITE_DIGITS = 15
"""Digits of a decimal that SQLite keeps in a column of numbers, where it is a float."""
_TEXTS = (sa.String, sa.Uuid)
_WHOLE = (sa.Integer, sa.Numeric)
# SQLAlchemy 2.1 has Float beside Numeric, 2.0 below it
_NUMBERS = (sa.Numeric, sa.Float)
_ACCEPTED: dict[Primitive, tuple[type[SqlType], ...]] = {
    Primitive.BOOL: (sa.Boolean,),
    Primitive.INT32: _WHOLE,
    Primitive.INT64: _WHOLE,
    Primitive.FLOAT32: (sa.Float,),
    Primitive.FLOAT64: (sa.Float,),
    Primitive.STRING: _TEXTS,
    Primitive.BINARY: (sa.LargeBinary, sa.types._Binary),
    Primitive.DATE: (sa.Date,),
}
_LOOSELY: dict[Primitive, tuple[type[SqlType], ...]] = {
    Primitive.BOOL: (sa.Boolean, sa.Integer, sa.Numeric),
    Primitive.FLOAT32: _NUMBERS,
    Primitive.FLOAT64: _NUMBERS,
    Primitive.DATE: (sa.Date, sa.String),
}
"""For databases without column types (SQLite), or with a converting driver."""


def made_type(dtype: DataType, dialect: str) -> SqlType:
    """The type of a column in a table that we create."""
    match dtype:
        case Primitive():
            return _MADE[dtype]
        case Decimal(precision, scale):
            # SQLite would convert it to a float: text keeps it exact
            return sa.Text() if dialect == "sqlite" else sa.Numeric(precision, scale)
        case Timestamp():
            return sa.DateTime(timezone=True)
        case ListOf() | Struct():
            return postgresql.JSONB() if dialect == "postgresql" else sa.JSON()


def holds(column: SqlType, dtype: DataType, dialect: str) -> bool:
    """Whether a column of this type stores every value of `dtype` unchanged."""
    strict = dialect == "postgresql"
    match dtype:
        case Primitive():
            accepted = _ACCEPTED[dtype] if strict else _LOOSELY.get(dtype, _ACCEPTED[dtype])
            # floats of 8 bytes: two numbers beyond 2**53 may be one
            rounds = dtype is Primitive.INT64 and isinstance(column, sa.Float)
            return isinstance(column, accepted) and not rounds and not (strict and _too_narrow(column, dtype))
        case Decimal():
            if dialect == "sqlite" and not isinstance(column, sa.String):
                return isinstance(column, sa.Numeric) and dtype.precision <= _SQLITE_DIGITS
            return _holds_decimal(column, dtype) if strict else isinstance(column, sa.Numeric | sa.String)
        case Timestamp():
            return isinstance(column, sa.DateTime) or (not strict and isinstance(column, sa.String))
        case ListOf() | Struct():
            return isinstance(column, sa.JSON | sa.String)


def _too_narrow(column: SqlType, dtype: Primitive) -> bool:
    match dtype:
        case Primitive.INT32:
            return isinstance(column, sa.SmallInteger | sa.Float) or not _whole_digits(column, 10)
        case Primitive.INT64:
            narrow = isinstance(column, sa.Integer) and not isinstance(column, sa.BigInteger)
            return narrow or isinstance(column, sa.Float) or not _whole_digits(column, 19)
        case Primitive.FLOAT64:
            return isinstance(column, sa.REAL)
        case _:
            return False


def _whole_digits(column: SqlType, digits: int) -> bool:
    """Whether `digits` digits fit before the point of a NUMERIC; a NUMERIC without precision has no limit."""
    if not isinstance(column, sa.Numeric) or column.precision is None:
        return True
    return column.precision - (column.scale or 0) >= digits


def _holds_decimal(column: SqlType, dtype: Decimal) -> bool:
    if not isinstance(column, sa.Numeric) or isinstance(column, sa.Float):
        return False
    if column.precision is None:
        return True
    return (column.scale or 0) >= dtype.scale and _whole_digits(column, dtype.precision - dtype.scale)
