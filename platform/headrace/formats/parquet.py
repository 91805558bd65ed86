"""The Parquet format. It has whole files and no messages: only the files connector uses it, through `fit_to_schema`."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from headrace.connect.format import NO_ENGINE, Decoder, Encoder, FormatConfig, FormatContext
from headrace.connect.registry import Format
from headrace.connect.row_check import RowCheck
from headrace.core.errors import DataError, UserError
from headrace.core.types import Field, Schema, polars_type


class ParquetFormat(FormatConfig):
    """`format: parquet` has no options."""

    file_only: ClassVar[bool] = True

    def check_source(self, schema: Schema) -> list[str]:
        """Accepts every type; rejects an empty schema."""
        return [] if len(schema) else ["a schema needs at least one column"]

    def check_sink(self, schema: Schema) -> list[str]:
        """Accepts every type; rejects an empty schema."""
        return [] if len(schema) else ["there is no column to write"]

    def open_decoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Decoder:
        """Raises UserError: the format has no messages."""
        raise _only_for_files()

    def open_encoder(self, schema: Schema, context: FormatContext = NO_ENGINE) -> Encoder:
        """Raises UserError: the format has no messages."""
        raise _only_for_files()

    def open_check(self, schema: Schema, context: FormatContext = NO_ENGINE) -> RowCheck | None:
        """Returns None: every value can be written."""
        return None


def fit_to_schema(frame: pl.DataFrame, schema: Schema, *, place: str) -> pl.DataFrame:
    """The columns of a Parquet frame as exactly those of `schema`; others are dropped, missing ones NULL.

    Converts only without loss: from a narrower integer or float, another time unit or zone. A time beyond 64 bits of
    microseconds becomes the furthest one, which is no time of a row either; NULL in a `not null` column stays. A source
    refuses such rows. Raises UserError if a column has another type, DataError if a `not null` column is missing;
    `place` names the file in the message.
    """
    columns = [_fit_column(frame, item, place) for item in schema]
    return pl.DataFrame(columns, height=frame.height)


def _fit_column(frame: pl.DataFrame, item: Field, place: str) -> pl.Series:
    wanted = polars_type(item.type)
    if item.name not in frame.columns:
        if not item.nullable and frame.height:
            raise DataError(f'{place}: field "{item.name}" is not null but missing')
        return pl.Series(item.name, [None] * frame.height, dtype=wanted)
    column = frame[item.name]
    if not _widens(column.dtype, wanted):
        raise UserError(
            f'{place}: field "{item.name}" is {item.type} in the schema but {column.dtype} in the file',
            remedy="declare the type that the file has, and cast in a step",
        )
    if column.dtype == wanted:
        return column
    return column.to_frame().select(_converted(pl.col(item.name), column.dtype, wanted).alias(item.name)).to_series()


_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
_UNSIGNED = (pl.UInt8, pl.UInt16, pl.UInt32)
_MS_MAX = (2**63 - 1) // 1_000


def _widens(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether every value of type `found` is representable in `wanted`."""
    if isinstance(found, pl.Null) or found == wanted:
        return True
    match wanted:
        case pl.Int64():
            return isinstance(found, (*_INTEGERS, *_UNSIGNED))
        case pl.Int32():
            return isinstance(found, (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16))
        case pl.Float64():
            return isinstance(found, pl.Float32)
        case pl.String():
            return isinstance(found, pl.Categorical | pl.Enum)
        case pl.Datetime():
            return isinstance(found, pl.Datetime)
        case pl.Decimal():
            return isinstance(found, pl.Decimal) and _wider(found, wanted)
        case pl.List():
            return isinstance(found, pl.List) and _widens(_instance(found.inner), _instance(wanted.inner))
        case pl.Struct():
            return isinstance(found, pl.Struct) and _widens_fields(found, wanted)
        case _:
            return False


def _converted(value: pl.Expr, found: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """A value of type `found` as the wider type `wanted`; structs field by field, because their order may differ."""
    if isinstance(wanted, pl.List) and isinstance(found, pl.List):
        return value.list.eval(_converted(pl.element(), _instance(found.inner), _instance(wanted.inner)))
    if isinstance(wanted, pl.Struct) and isinstance(found, pl.Struct):
        types = {item.name: _instance(item.dtype) for item in found.fields}
        fields = [
            _converted(value.struct.field(item.name), types[item.name], _instance(item.dtype)).alias(item.name)
            for item in wanted.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    if isinstance(found, pl.Datetime) and found.time_unit == "ms":
        # polars panics where the product exceeds 64 bits
        return (value.cast(pl.Int64).clip(-_MS_MAX, _MS_MAX) * 1_000).cast(wanted)
    return value if found == wanted else value.cast(wanted)


def _wider(found: pl.Decimal, wanted: pl.Decimal) -> bool:
    before_point = (found.precision or 38) - found.scale
    return found.scale <= wanted.scale and before_point <= (wanted.precision or 38) - wanted.scale


def _widens_fields(found: pl.Struct, wanted: pl.Struct) -> bool:
    types = {item.name: _instance(item.dtype) for item in found.fields}
    return all(item.name in types and _widens(types[item.name], _instance(item.dtype)) for item in wanted.fields)


def _instance(dtype: object) -> pl.DataType:
    assert isinstance(dtype, pl.DataType), "types of a frame are instances"
    return dtype


def _only_for_files() -> UserError:
    return UserError(
        "parquet is a file format", remedy="use it with the files connector; messages need json, csv or raw"
    )


FORMAT = Format(
    "parquet", "columns in Parquet files; for the files connector", ParquetFormat, example="format: parquet\n"
)
