"""Column types, fields and schemas, and their polars form.

Owns the closed set of types, their text form and their polars form. Must not know expressions and formats.

The text form is that of the pipeline file: `int64`, `decimal(10,2)`, `timestamp`, `[string]`, `[int64 not null]`, `{a:
int64, b: string not null}`; ` not null` after a type makes a field required.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Literal

from headrace.core.errors import UserError, did_you_mean
from headrace.core.text.synonyms import TYPE_SYNONYMS

if TYPE_CHECKING:
    import polars as pl

TimestampUnit = Literal["s", "ms", "us"]
MICROSECONDS: Mapping[TimestampUnit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in one unit of an integer timestamp."""
UNIT_WORDS: Mapping[TimestampUnit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}


class Primitive(StrEnum):
    """Types without parameters. `date` is days, `binary` is bytes."""

    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point; 1 <= precision <= 38."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """UTC microseconds. `unit` is the unit in which a source reads integers; types that differ only in `unit` are
    equal."""

    unit: TimestampUnit = field(default="ms", compare=False)

    def __str__(self) -> str:
        return "timestamp"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one type."""

    inner: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"[{self.inner}]" if self.nullable else f"[{self.inner} not null]"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields inside one column."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(str(item) for item in self.fields) + "}"


DataType = Primitive | Decimal | Timestamp | ListOf | Struct

TIMESTAMP = Timestamp()
INT_TYPES: tuple[DataType, ...] = (Primitive.INT32, Primitive.INT64)
FLOAT_TYPES: tuple[DataType, ...] = (Primitive.FLOAT32, Primitive.FLOAT64)


@cache
def _polars_primitives() -> dict[Primitive, pl.DataType]:
    import polars as pl

    return {
        Primitive.BOOL: pl.Boolean(),
        Primitive.INT32: pl.Int32(),
        Primitive.INT64: pl.Int64(),
        Primitive.FLOAT32: pl.Float32(),
        Primitive.FLOAT64: pl.Float64(),
        Primitive.STRING: pl.String(),
        Primitive.BINARY: pl.Binary(),
        Primitive.DATE: pl.Date(),
    }


def polars_type(dtype: DataType) -> pl.DataType:
    """The polars type that holds `dtype`."""
    # parsing a pipeline file needs types but not polars, so polars is imported with the first column only
    import polars as pl

    match dtype:
        case Primitive():
            return _polars_primitives()[dtype]
        case Decimal(precision, scale):
            return pl.Decimal(precision, scale)
        case Timestamp():
            return pl.Datetime("us", "UTC")
        case ListOf(inner):
            return pl.List(polars_type(inner))
        case Struct(fields):
            return pl.Struct({item.name: polars_type(item.type) for item in fields})


@dataclass(frozen=True, slots=True)
class Field:
    """A named column: its type and whether it may be NULL."""

    name: str
    type: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" if self.nullable else f"{self.name}: {self.type} not null"

    @property
    def type_text(self) -> str:
        """The type as a pipeline file writes it, with ` not null` if the field is required."""
        return str(self.type) if self.nullable else f"{self.type} not null"


@dataclass(frozen=True, slots=True)
class Schema:
    """The visible columns of an edge, in order; names are unique."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        assert len({item.name for item in self.fields}) == len(self.fields), "column names are unique"

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(item.name == name for item in self.fields)

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(item.name for item in self.fields)

    def get(self, name: str) -> Field | None:
        """The field with this name, or None."""
        return next((item for item in self.fields if item.name == name), None)

    def field(self, name: str) -> Field:
        """The field with this name. Raises KeyError if there is none."""
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def polars(self) -> dict[str, pl.DataType]:
        """Column name to polars type, in order."""
        return {item.name: polars_type(item.type) for item in self.fields}

    def empty(self) -> pl.DataFrame:
        """A frame of these columns with no rows."""
        import polars as pl

        return pl.DataFrame(schema=self.polars())

    def json(self) -> dict[str, str]:
        """Name to type text, for plans and `--json`."""
        return {item.name: item.type_text for item in self.fields}


_TYPE_NAMES = (*[str(item) for item in Primitive], "decimal", "timestamp")
_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)$")
_STAMP = re.compile(r"timestamp(?:\s*\(\s*(s|us)\s*\))?$")


def parse_type(text: str) -> tuple[DataType, bool]:
    """Parses a type as a pipeline file writes it; returns the type and whether it may be NULL.

    Raises UserError that names the nearest valid type.
    """
    body, found = _NOT_NULL.subn("", text.strip())
    nullable = not found
    body = body.strip()
    if body.startswith("[") and body.endswith("]"):
        inner, inner_nullable = parse_type(body[1:-1])
        return ListOf(inner, inner_nullable), nullable
    if body.startswith("{") and body.endswith("}"):
        return Struct(_parse_fields(body[1:-1])), nullable
    if body in Primitive.__members__.values():
        return Primitive(body), nullable
    if stamp := _STAMP.match(body):
        unit: TimestampUnit = "s" if stamp[1] == "s" else "us" if stamp[1] == "us" else "ms"
        return Timestamp(unit), nullable
    if dec := _DECIMAL.match(body):
        precision, scale = int(dec[1]), int(dec[2])
        if not (1 <= precision <= 38 and scale <= precision):
            raise UserError(f"{body}: precision is 1 to 38 and scale at most the precision")
        return Decimal(precision, scale), nullable
    word = body.split("(")[0].strip().lower()
    meant = TYPE_SYNONYMS.get(word)
    hint = f"did you mean {meant!r}?" if meant else did_you_mean(word, _TYPE_NAMES)
    valid = "valid types: " + ", ".join(_TYPE_NAMES).replace("decimal", "decimal(p,s)") + ", [T], or a nested mapping"
    raise UserError(f"unknown type {text.strip()!r}", remedy=f"{hint} {valid}" if hint else valid)


def _parse_fields(text: str) -> tuple[Field, ...]:
    """`a: int64, b: {c: string}`: commas inside brackets do not separate fields."""
    items, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            items.append(text[begin:at])
            begin = at + 1
    fields = []
    for item in (*items, text[begin:]):
        name, colon, inner = item.partition(":")
        if not colon or not name.strip() or "\0" in name:
            raise UserError(f"{item.strip()!r} is no field of a struct", remedy="write {name: type, ..}")
        fields.append(Field(name.strip(), *parse_type(inner)))
    if len({item.name for item in fields}) < len(fields):
        raise UserError(f"{{{text}}} names a field twice")
    return tuple(fields)


def schema_of(columns: Mapping[str, str]) -> Schema:
    """A schema from a mapping of name to type text: the short form for connectors and tests."""
    return Schema(tuple(Field(name, *parse_type(text)) for name, text in columns.items()))
