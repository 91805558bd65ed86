"""Compiles columns and a writer's schema to the program by which rows become messages.

Each field of the schema is written from the column of its name; one without a column needs a default. A column without
a field is refused: its values would be lost. docs/formats.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.core.errors import UserError
from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.avro.columns import branch_names, value_branches
from headrace.formats.avro.defaults import DefaultError, default_bytes
from headrace.formats.avro.schema import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Plain,
    PlainKind,
    Record,
    RecordField,
    Union,
    is_null,
    type_name,
)
from headrace.kernels.avro_encode import AvroWriting, Put, fields_of
from headrace.kernels.avro_instruction import Instruction

_PLAIN: dict[tuple[DataType, PlainKind], Put] = {
    (Primitive.BOOL, PlainKind.BOOLEAN): Put.BOOL,
    (Primitive.INT32, PlainKind.INT): Put.INT,
    (Primitive.INT32, PlainKind.LONG): Put.INT,
    (Primitive.INT64, PlainKind.LONG): Put.LONG,
    (Primitive.FLOAT32, PlainKind.FLOAT): Put.FLOAT,
    (Primitive.FLOAT32, PlainKind.DOUBLE): Put.FLOAT_DOUBLE,
    (Primitive.FLOAT64, PlainKind.DOUBLE): Put.DOUBLE,
    (Primitive.STRING, PlainKind.STRING): Put.TEXT,
    (Primitive.BINARY, PlainKind.BYTES): Put.TEXT,
}
_BRANCHES_MAX = 64
"""A column is written as one of so many branches: the index of another one has two bytes."""
_RAW = {"time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", "uuid"}
"""Logical types whose columns are of the plain type."""


def writing(columns: Schema, schema: AvroType) -> AvroWriting:
    """The program that writes rows of these columns as messages of `schema`. Raises UserError with the place of what
    does not fit."""
    if not isinstance(schema, Record):
        raise UserError(f"the Avro schema is {type_name(schema)}: columns are written as a record")
    writer = _Writer(*fields_of(columns))
    writer.record(schema, range(len(columns)), "")
    return AvroWriting(columns, tuple(writer.code), bytes(writer.pool), tuple(writer.symbols))


@dataclass(slots=True)
class _Writer:
    """Writes the program. Arguments name a column by its index in `fields`; `first`: the first child of each."""

    fields: Sequence[Field]
    first: Sequence[int]
    code: list[Instruction] = field(default_factory=list)
    pool: bytearray = field(default_factory=bytearray)
    symbols: list[tuple[int, int]] = field(default_factory=list)

    def record(self, schema: Record, columns: range, place: str) -> None:
        """One value for each field of the record, in order."""
        by_name = {self.fields[index].name: index for index in columns}
        for item in schema.fields:
            if item.name in by_name:
                self._value(item.type, by_name.pop(item.name), f"{place}.{item.name}")
            else:
                self._default(item, f"{place}.{item.name}")
        for name in by_name:
            raise _misfit(f"{place}.{name}", "the Avro schema has no such field: its values would be lost")

    def _default(self, item: RecordField, place: str) -> None:
        if not item.has_default:
            raise _misfit(place, "a field of the Avro schema without default that no column has")
        try:
            data = default_bytes(item.type, item.default)
        except DefaultError as cause:
            raise _misfit(place, str(cause)) from cause
        self.code.append(Instruction(Put.CONSTANT, 0, count=len(data), first=len(self.pool)))
        self.pool += data

    def _value(self, schema: AvroType, column: int, place: str) -> None:
        item = self.fields[column]
        if not isinstance(schema, Union):
            if item.nullable:
                self.code.append(Instruction(Put.REQUIRED, column))
            self._plain(schema, column, place)
            return
        values = value_branches(schema)
        null = next((index for index, branch in enumerate(schema.branches) if is_null(branch)), -1)
        if isinstance(item.type, Struct) and self._is_split(item.type, schema, values):
            self._union(schema, null, column, place)
            return
        taken = self._fitting(schema, column, place)
        if null < 0 and item.nullable:
            self.code.append(Instruction(Put.REQUIRED, column))
        opened = self._open(Instruction(Put.NULLABLE, column, first=null, second=taken))
        self._plain(schema.branches[taken], column, place)
        self._close(opened)

    def _is_split(self, struct: Struct, schema: Union, values: Sequence[AvroType]) -> bool:
        """Whether the column is a struct of the union's branches, not the struct of a record in it."""
        names = branch_names(schema)
        is_record = any(isinstance(branch, Record) for branch in values)
        return not is_record or (len(values) > 1 and all(item.name in names for item in struct.fields))

    def _fitting(self, schema: Union, column: int, place: str) -> int:
        """The first branch that the column can be written as."""
        failure: UserError | None = None
        for index, branch in enumerate(schema.branches[:_BRANCHES_MAX]):
            begin = len(self.code)
            try:
                if not is_null(branch):
                    self._plain(branch, column, place)
                    return index
            except UserError as misfit:
                failure = failure or misfit
            finally:
                del self.code[begin:]
        raise failure or _misfit(place, "the Avro schema has null only")

    def _union(self, schema: Union, null: int, column: int, place: str) -> None:
        names = branch_names(schema)
        struct = self.fields[column].type
        assert isinstance(struct, Struct)
        opened = self._open(Instruction(Put.UNION, column, count=len(struct.fields), first=null))
        for child, item in enumerate(struct.fields, self.first[column]):
            if item.name not in names:
                raise _misfit(f"{place}.{item.name}", "the union has no such branch")
            index = names.index(item.name)
            branch = self._open(Instruction(Put.BRANCH, child, first=index))
            self._plain(schema.branches[index], child, f"{place}.{item.name}")
            self._close(branch)
        self._close(opened)

    def _plain(self, schema: AvroType, column: int, place: str) -> None:
        dtype = self.fields[column].type
        match schema, dtype:
            case Record(), Struct(fields):
                opened = self._open(Instruction(Put.RECORD, column))
                begin = self.first[column]
                self.record(schema, range(begin, begin + len(fields)), place)
                self._close(opened)
            case Array(items), ListOf():
                opened = self._open(Instruction(Put.ARRAY, column))
                self._value(items, self.first[column], f"{place}[]")
                self._close(opened)
            case Map(values), ListOf(Struct(entry)) if [item.name for item in entry] == ["key", "value"]:
                self._map(values, column, place)
            case Enum(symbols=symbols), Primitive.STRING:
                self._enum(symbols, column)
            case ((Plain() | Fixed()), _):
                found = _leaf(schema, dtype)
                if found is None:
                    raise _misfit(place, f"{dtype} cannot be written as {_shown(schema)}")
                self.code.append(replace(found, column=column))
            case _:
                raise _misfit(place, f"{dtype} cannot be written as {_shown(schema)}")

    def _map(self, values: AvroType, column: int, place: str) -> None:
        opened = self._open(Instruction(Put.ARRAY, column))
        entry = self.first[column]
        if self.fields[entry].nullable:
            self.code.append(Instruction(Put.REQUIRED, entry))
        record = self._open(Instruction(Put.RECORD, entry))
        self._value(Plain(PlainKind.STRING), self.first[entry], f"{place}[].key")
        self._value(values, self.first[entry] + 1, f"{place}[].value")
        self._close(record)
        self._close(opened)

    def _enum(self, symbols: Sequence[str], column: int) -> None:
        self.code.append(Instruction(Put.ENUM, column, count=len(symbols), first=len(self.symbols)))
        for symbol in symbols:
            data = symbol.encode()
            self.symbols.append((len(self.pool), len(data)))
            self.pool += data

    def _open(self, instruction: Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def _close(self, opened: int) -> None:
        self.code[opened] = replace(self.code[opened], jump=len(self.code))


def _leaf(schema: Plain | Fixed, dtype: DataType) -> Instruction | None:
    logical = schema.logical.name if schema.logical else None
    if isinstance(dtype, Decimal):
        return _decimal(schema, dtype)
    if isinstance(dtype, Timestamp):
        return _timestamp((logical or "").removeprefix("local-"))
    if dtype is Primitive.DATE:
        return Instruction(Put.INT) if logical == "date" else None
    if isinstance(schema, Fixed):
        is_bytes = dtype is Primitive.BINARY
        return Instruction(Put.FIXED, count=schema.size) if is_bytes and logical is None else None
    put = _PLAIN.get((dtype, schema.kind))
    return None if put is None or (logical is not None and logical not in _RAW) else Instruction(put)


def _timestamp(logical: str) -> Instruction | None:
    match logical:
        case "timestamp-micros":
            return Instruction(Put.LONG)
        case "timestamp-millis":
            return Instruction(Put.FLOORED)
        case "timestamp-nanos":
            return Instruction(Put.MULTIPLIED, first=1_000)
        case _:
            return None


def _decimal(schema: Plain | Fixed, dtype: Decimal) -> Instruction | None:
    logical = schema.logical
    if logical is None or logical.name != "decimal" or logical.scale != dtype.scale:
        return None
    digits = logical.precision if logical.precision < dtype.precision else 0
    return Instruction(Put.DECIMAL, count=schema.size if isinstance(schema, Fixed) else -1, first=digits)


def _shown(schema: AvroType) -> str:
    logical = schema.logical if isinstance(schema, Plain | Fixed) else None
    if logical is None:
        return type_name(schema)
    numbers = f"({logical.precision},{logical.scale})" if logical.precision else ""
    return f"{type_name(schema)} ({logical.name}{numbers})"


def _misfit(place: str, what: str) -> UserError:
    return UserError(f"Avro: column {place.lstrip('.')}: {what}")
