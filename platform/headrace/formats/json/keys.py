"""Record keys as compact JSON objects.

Distinct groups have distinct keys, and a group has one key: -0.0 is written as 0.0, to which it is equal; NaN and the
infinities, for which JSON has no numbers, are written as texts. Inside of lists and structs they must not occur
(`has_no_number`).
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import columns_holding
from headrace.core.types import DataType, ListOf, Primitive, Schema, Struct
from headrace.formats.json.encode import TimestampStyle, encode_json_object

_FLOATS = {Primitive.FLOAT32: pl.Float32, Primitive.FLOAT64: pl.Float64}


class JsonKeyEncoder:
    """Writes the columns of one schema, in its order. For rows whose lists and structs have no NaN and no infinity."""

    def __init__(self, schema: Schema, *, timestamps: TimestampStyle = "rfc3339") -> None:
        self._columns = schema.names
        self._timestamps: TimestampStyle = timestamps
        self._plain = [field.name for field in schema if field.type in _FLOATS]
        nested = nested_floats(schema)
        self._zeros = [
            _without_negative_zero(pl.col(field.name), field.type).alias(field.name)
            for field in schema
            if field.type in _FLOATS or field.name in nested
        ]

    def encode(self, rows: pl.DataFrame) -> pa.Array:
        """See `Encoder`. A column of floats is a text where it is NaN or infinite."""
        rows = rows.select(self._columns).with_columns(self._zeros)
        masks = {name: ~rows.get_column(name).is_finite().fill_null(value=True) for name in self._plain}
        odd = {name: mask for name, mask in masks.items() if mask.any()}
        return self._objects(rows) if not odd else self._with_texts(rows, odd)

    def file_header(self) -> bytes:
        """Empty: JSON lines have no header."""
        return b""

    def _with_texts(self, rows: pl.DataFrame, odd: dict[str, pl.Series]) -> pa.Array:
        # rows with texts in the same columns are encoded together
        patterns = pl.DataFrame(odd).select(pl.struct(pl.all()).alias("texts"), pl.int_range(pl.len()).alias("row"))
        parts = []
        for (texts,), part in patterns.group_by("texts"):
            assert isinstance(texts, dict)
            numbers = part.get_column("row")
            chosen = rows[numbers].with_columns(_text(name) for name, is_text in texts.items() if is_text)
            parts.append(pl.DataFrame({"row": numbers, "key": pl.Series(pl.from_arrow(self._objects(chosen)))}))
        return pl.concat(parts).sort("row").get_column("key").to_arrow()

    def _objects(self, rows: pl.DataFrame) -> pa.Array:
        return encode_json_object(rows, self._columns, timestamps=self._timestamps)


def nested_floats(schema: Schema) -> tuple[str, ...]:
    """The columns with floats inside of lists or structs."""
    return columns_holding(Schema(tuple(field for field in schema if field.type not in _FLOATS)), _is_float)


def has_no_number(values: pl.Series) -> bool:
    """Whether a column has a NaN or an infinity."""
    return values.dtype.is_float() and not bool(values.is_finite().all())


def _text(name: str) -> pl.Expr:
    value = pl.col(name)
    infinity = pl.when(value > 0).then(pl.lit("Infinity")).otherwise(pl.lit("-Infinity"))
    return pl.when(value.is_nan()).then(pl.lit("NaN")).otherwise(infinity).alias(name)


def _without_negative_zero(value: pl.Expr, dtype: DataType) -> pl.Expr:
    match dtype:
        case Primitive.FLOAT32 | Primitive.FLOAT64:
            # polars removes an addition of 0.0 as if it changed nothing
            return pl.when(value == 0).then(pl.lit(0.0, dtype=_FLOATS[dtype])).otherwise(value)
        case ListOf(inner):
            return value.list.eval(_without_negative_zero(pl.element(), inner))
        case Struct(fields):
            inside = [_without_negative_zero(value.struct.field(f.name), f.type).alias(f.name) for f in fields]
            return pl.when(value.is_not_null()).then(pl.struct(inside))
        case _:
            return value


def _is_float(dtype: DataType) -> bool:
    return dtype in _FLOATS
