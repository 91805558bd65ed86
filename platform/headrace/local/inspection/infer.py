"""Infers a schema from data: merges the types of the values over all rows. Pure.

Values without a common type become a string with a note: the user decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from headrace.core.config import duration_text
from headrace.core.errors import UserError, did_you_mean
from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.types import (
    TIMESTAMP,
    DataType,
    Decimal,
    Field,
    ListOf,
    Primitive,
    Schema,
    Struct,
    Timestamp,
    TimestampUnit,
)
from headrace.local.inspection.disorder import Disorder

_INT64 = range(-(1 << 63), 1 << 63)
_DECIMAL_MAX = 10**38
_STAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?",
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME_NAME = re.compile(
    r"(^|_)(ts|time|timestamp|date|datetime|at|ms|millis|epoch|created|updated)($|_)", re.IGNORECASE
)
# integers that are epoch times of 2001 to 2065, in seconds and in milliseconds
_EPOCH_S, _EPOCH_MS = range(10**9, 3 * 10**9), range(10**12, 3 * 10**12)
_TEXT_INT = re.compile(r"[+-]?(0|[1-9]\d*)")
_TEXT_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Inferred:
    """An inferred schema; `notes`: column -> remark on its type; `time`: the column that may be the event time.

    `format`: the source's format with its options, as YAML, if it was found in the data; `disorder`: of the column
    `time`, if it was measured; `naming`: how columns got their names, if the data does not simply have them.
    """

    schema: Schema
    notes: Mapping[str, str]
    time: str | None
    rows: int
    format: str | None = None
    disorder: Disorder | None = None
    naming: str | None = None


@dataclass(slots=True)
class _Seen:
    """The values of one place: their number by kind, and the content of lists and structs."""

    count: int = 0
    nulls: int = 0
    kinds: set[str] = field(default_factory=set)
    element: _Seen | None = None
    fields: dict[str, _Seen] = field(default_factory=dict)
    epochs: set[str] = field(default_factory=set)

    def add(self, value: object) -> None:
        self.count += 1
        kind = _kind(value)
        if kind == "null":
            self.nulls += 1
            return
        self.kinds.add(kind)
        if isinstance(value, int) and not isinstance(value, bool):
            self.epochs.add("ms" if value in _EPOCH_MS else "s" if value in _EPOCH_S else "")
        elif isinstance(value, list):
            self.element = self.element or _Seen()
            for item in value:
                self.element.add(item)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                self.fields.setdefault(str(name), _Seen()).add(item)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int" if value in _INT64 else "huge" if abs(value) < _DECIMAL_MAX else "float"
        case float():
            return "float"
        case str():
            return _text_kind(value)
        case list():
            return "list"
        case Mapping():
            return "struct"
        case _:
            raise AssertionError(f"JSON holds no {type(value).__name__}")


def _text_kind(text: str) -> str:
    if _STAMP.fullmatch(text) and _is_date(text[:10]):
        return "timestamp"
    return "date" if _DATE.fullmatch(text) and _is_date(text) else "string"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def infer_rows(rows: Iterable[Mapping[str, object]]) -> Inferred:
    """Returns the schema of JSON objects. A column that is in every row and never null is `not null`."""
    seen: dict[str, _Seen] = {}
    count = 0
    for row in rows:
        count += 1
        for name, value in row.items():
            seen.setdefault(name, _Seen()).add(value)
    return _inferred(seen, count)


def infer_texts(rows: Iterable[Mapping[str, str | None]]) -> Inferred:
    """Returns the schema of CSV rows: every value is text, an empty one is null."""
    return infer_rows({name: text_value(text) for name, text in row.items()} for row in rows)


def text_value(text: str | None) -> object:
    """The value of a CSV field: a bool or a number if the text is one, else the text; None if it is empty."""
    if text is None or text == "":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _TEXT_INT.fullmatch(text):
        return int(text)
    # a number with leading zeros is a code
    if _TEXT_FLOAT.fullmatch(text) and not re.match(r"[+-]?0\d", text):
        return float(text)
    return text


def _inferred(seen: Mapping[str, _Seen], rows: int) -> Inferred:
    notes: dict[str, str] = {}
    fields: list[Field] = []
    for name, place in seen.items():
        if name.startswith(HIDDEN_PREFIX):
            notes[name] = f"left out: names that begin with {HIDDEN_PREFIX} are headrace's own"
            continue
        dtype, note = _type(place, name)
        if note:
            notes[name] = note
        fields.append(Field(name, dtype, nullable=place.nulls > 0 or place.count < rows))
    schema = Schema(tuple(fields))
    return Inferred(schema, notes, suggested_time(schema), rows)


def _type(seen: _Seen, name: str) -> tuple[DataType, str | None]:
    kinds = seen.kinds
    if not kinds:
        return Primitive.STRING, "every value is null: the type is a guess"
    if kinds == {"struct"}:
        fields = [_field(key, inner, seen.count - seen.nulls) for key, inner in seen.fields.items()]
        return (Struct(tuple(fields)), None) if fields else (Primitive.STRING, "an object without fields: leave it out")
    if kinds == {"list"}:
        element = seen.element
        if element is None or not element.count:
            return ListOf(Primitive.STRING), "every list is empty: the element's type is a guess"
        inner, note = _type(element, "")
        return ListOf(inner, nullable=element.nulls > 0), note
    return _scalar(kinds, seen.epochs, name)


def _field(name: str, seen: _Seen, rows: int) -> Field:
    dtype, _ = _type(seen, name)
    return Field(name, dtype, nullable=seen.nulls > 0 or seen.count < rows)


_EPOCH_UNITS: dict[str, TimestampUnit] = {"ms": "ms", "s": "s"}


def _scalar(kinds: set[str], epochs: set[str], name: str) -> tuple[DataType, str | None]:
    if kinds == {"int"}:
        (unit,) = epochs if len(epochs) == 1 else ("",)
        if unit and _TIME_NAME.search(name):
            return Timestamp(_EPOCH_UNITS[unit]), f"epoch {'milliseconds' if unit == 'ms' else 'seconds'}"
        return Primitive.INT64, None
    if kinds <= {"int", "huge"}:
        return Decimal(38, 0), "some numbers do not fit int64"
    if kinds <= {"int", "huge", "float"}:
        return Primitive.FLOAT64, None
    single: dict[str, DataType] = {
        "bool": Primitive.BOOL,
        "string": Primitive.STRING,
        "timestamp": TIMESTAMP,
        "date": Primitive.DATE,
    }
    if len(kinds) == 1:
        return single[next(iter(kinds))], None
    if kinds <= {"string", "timestamp", "date"}:
        return Primitive.STRING, None
    return Primitive.STRING, f"mixed: {', '.join(sorted(kinds))}; rows with another type than this are bad"


def suggested_time(schema: Schema) -> str | None:
    """Returns the most likely event-time column: a timestamp that is never null, preferably with a typical name."""
    stamps = [item for item in schema if isinstance(item.type, Timestamp)]
    ranked = sorted(stamps, key=lambda item: (item.nullable, not _TIME_NAME.search(item.name)))
    return ranked[0].name if ranked else None


def schema_lines(inferred: Inferred) -> list[str]:
    """Returns a `schema:` block, and a `time:` block if there is an event-time column, ready to paste under a
    source.
    """
    lines = [] if inferred.format is None else [f"format: {inferred.format}"]
    lines.append("schema:")
    for item in inferred.schema:
        lines += _field_lines(item, 1, inferred.notes.get(item.name))
    for name, note in inferred.notes.items():
        if name not in inferred.schema:
            lines.append(f"  # {name}: {note}")
    if inferred.time is not None:
        lines += ["time:", f"  column: {_name(inferred.time)}", f"  {_out_of_orderness(inferred.disorder)}"]
    return lines


def _out_of_orderness(disorder: Disorder | None) -> str:
    if disorder is None:
        return "out_of_orderness: 0s  # how late a row may come: not measured"
    late = f"{disorder.late:,} of {disorder.rows:,} sampled rows would be late"
    longest = f", the latest by {duration_text(disorder.longest_ms)}" if disorder.late else ""
    return f"out_of_orderness: {duration_text(disorder.bound_ms)}  # {late}{longest}"


def _field_lines(item: Field, depth: int, note: str | None) -> list[str]:
    indent = "  " * depth
    tail = f"  # {note}" if note else ""
    if isinstance(item.type, Struct):
        lines = [f"{indent}{_name(item.name)}:{tail}"]
        for inner in item.type.fields:
            lines += _field_lines(inner, depth + 1, None)
        return lines
    text = _type_text(item.type, nullable=item.nullable)
    return [f"{indent}{_name(item.name)}: {text}{tail}"]


def _type_text(dtype: DataType, *, nullable: bool, flow: bool = False) -> str:
    end = "" if nullable else " not null"
    match dtype:
        case ListOf(inner, inner_nullable):
            # only the text form has `not null` for a list, and it cannot contain a struct
            if not nullable and not _holds_struct(inner):
                return f'"{dtype} not null"'
            return f"[{_type_text(inner, nullable=inner_nullable, flow=True)}]"
        case Struct(fields):
            pairs = (f"{_name(f.name)}: {_type_text(f.type, nullable=f.nullable, flow=True)}" for f in fields)
            return "{" + ", ".join(pairs) + "}"
        case Timestamp(unit):
            return f"timestamp{'' if unit == 'ms' else f'({unit})'}{end}"
        case Decimal():
            return f'"{dtype}{end}"' if flow else f"{dtype}{end}"
        case _:
            return f"{dtype}{end}"


def _holds_struct(dtype: DataType) -> bool:
    return isinstance(dtype, Struct) or (isinstance(dtype, ListOf) and _holds_struct(dtype.inner))


def _name(name: str) -> str:
    """Returns a column's name as a YAML key."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() != "null"
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def declared(inferred: Inferred, *, keys: Sequence[str], not_null: bool) -> Inferred:
    """The schema with nullable columns, except keys; with `not_null` also except columns without a null.

    A sample without a null does not show that the next row has none, and a null in a `not null` column is a bad row:
    the user decides.

    Raises UserError for a key that is no column, or that was null.
    """
    for key in keys:
        if key not in inferred.schema:
            names = inferred.schema.names
            raise UserError(f"--key {key}: there is no such column", remedy=did_you_mean(key, tuple(names)))
        if inferred.schema.field(key).nullable:
            raise UserError(f"--key {key}: some rows have no value there", remedy="a key has one in every row")
    if not_null:
        return inferred
    fields = [Field(item.name, _open(item.type), nullable=item.name not in keys) for item in inferred.schema]
    return replace(inferred, schema=Schema(tuple(fields)))


def _open(dtype: DataType) -> DataType:
    """The type with nullable content."""
    match dtype:
        case ListOf(inner):
            return ListOf(_open(inner))
        case Struct(fields):
            return Struct(tuple(Field(item.name, _open(item.type)) for item in fields))
        case _:
            return dtype
