"""Compiles a writer's schema and a reader's columns to the program by which messages become rows.

The kernel and the row reader run the same program, so resolution happens here and nowhere else. Its rules are those of
Avro's specification, except that names of records do not matter, that columns take the values of the writer's logical
types, and that a missing nullable column is NULL. docs/formats.md has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.core.errors import UserError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct
from headrace.formats.avro.columns import DURATION, branch_names, value_branches
from headrace.formats.avro.defaults import DefaultError, default_bytes
from headrace.formats.avro.leaves import leaf, skipped
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
    short_name,
    type_name,
)
from headrace.kernels.avro_instruction import Instruction
from headrace.kernels.decode.avro_program import AvroProgram, Op, Text
from headrace.kernels.decode.columns import Column, ColumnLayout


@dataclass(frozen=True, slots=True)
class Program:
    """How messages of one writer's schema become rows.

    code       what kernel and row reader run
    writer     the record that messages hold
    constants  the type of each default, by its place in the pool
    reasons    why rows are bad, as BAD instructions number them
    notes      what a user may not expect, for warnings at submit
    """

    code: AvroProgram
    writer: Record
    constants: dict[int, AvroType]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def resolve(writer: AvroType, columns: Schema, *, reader: AvroType | None = None, lossy: bool = False) -> Program:
    """The program for messages of a writer's schema. Raises UserError with the place of what cannot be read.

    reader  an Avro schema with the columns' fields: its defaults, aliases and types hold between writer and columns
    lossy   nanoseconds may be cut to microseconds
    """
    for name, schema in (("writer", writer), ("reader", reader)):
        if schema is not None and not isinstance(schema, Record):
            raise UserError(f"the {name}'s Avro schema is {type_name(schema)}: columns are read from a record")
    assert isinstance(writer, Record)
    resolver = _Resolver(ColumnLayout(columns).columns, lossy=lossy)
    try:
        resolver.fields(writer, reader if isinstance(reader, Record) else None, 0, "")
    except _MismatchError as mismatch:
        raise UserError(f"Avro: {mismatch}") from None
    return resolver.program(writer)


class _MismatchError(Exception):
    """A type of the writer cannot be read as that of the reader."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(_placed(place, what))


_PROMOTIONS = {
    PlainKind.INT: {PlainKind.LONG, PlainKind.FLOAT, PlainKind.DOUBLE},
    PlainKind.LONG: {PlainKind.FLOAT, PlainKind.DOUBLE},
    PlainKind.FLOAT: {PlainKind.DOUBLE},
    PlainKind.STRING: {PlainKind.BYTES},
    PlainKind.BYTES: {PlainKind.STRING},
}
_ROUNDED = {
    (PlainKind.INT, PlainKind.FLOAT),
    (PlainKind.LONG, PlainKind.FLOAT),
    (PlainKind.LONG, PlainKind.DOUBLE),
}
"""Promotions that do not keep every value."""


@dataclass(slots=True)
class _Resolver:
    """Writes the program. `columns` are those of the layout; other arguments name a column by its index there."""

    columns: Sequence[Column]
    lossy: bool = field(kw_only=True)
    code: list[Instruction] = field(default_factory=list)
    pool: bytearray = field(default_factory=bytearray)
    symbols: list[tuple[int, int]] = field(default_factory=list)
    constants: dict[int, AvroType] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def program(self, writer: Record) -> Program:
        # the text of a uuid has 36 bytes, its fixed 16; all others are no longer than in the message
        factor = 3 if any(instruction.op is Op.UUID for instruction in self.code) else 1
        code = AvroProgram(tuple(self.code), bytes(self.pool), tuple(self.symbols), factor)
        return Program(code, writer, self.constants, tuple(self.reasons), tuple(self.notes))

    def fields(self, writer: Record, reader: Record | None, struct: int, place: str) -> None:
        """One instruction for each field of the writer, in order; then those of columns without one."""
        children = self._children(struct)
        wanted = {child: self._reader_field(reader, child, place) for child in children}
        sources = self._sources(writer, wanted, place)
        for position, item in enumerate(writer.fields):
            child = sources.get(position)
            if child is None:
                self._skip(item.type)
            else:
                known = wanted[child]
                self._value(item.type, known.type if known else None, child, f"{place}.{self._name(child)}")
        for child in children:
            if child not in sources.values():
                self._missing(child, wanted[child], f"{place}.{self._name(child)}")

    def _reader_field(self, reader: Record | None, child: int, place: str) -> RecordField | None:
        if reader is None:
            return None
        name = self._name(child)
        for item in reader.fields:
            if item.name == name:
                return item
        raise _MismatchError(f"{place}.{name}", "the reader's schema has no such field")

    def _sources(self, writer: Record, wanted: dict[int, RecordField | None], place: str) -> dict[int, int]:
        """The column that each field of the writer is read to: by name, else by an alias of the reader's field."""
        positions = {item.name: position for position, item in enumerate(writer.fields)}
        sources = {positions[self._name(child)]: child for child in wanted if self._name(child) in positions}
        for child, item in wanted.items():
            name = self._name(child)
            for alias in item.aliases if item else ():
                if alias not in positions:
                    continue
                if name in positions:
                    self.notes[
                        f'field "{f"{place}.{name}".lstrip(".")}": the writer has it and its alias {alias!r}'
                    ] = None
                elif positions[alias] not in sources:
                    sources[positions[alias]] = child
                    break
        return sources

    def _missing(self, child: int, item: RecordField | None, place: str) -> None:
        if item is not None and item.has_default:
            try:
                data = default_bytes(item.type, item.default)
            except DefaultError as cause:
                raise _MismatchError(place, str(cause)) from cause
            begin = len(self.pool)
            self.pool += data
            self.constants[begin] = item.type
            opened = self._open(Instruction(Op.CONSTANT, child, count=len(data), first=begin))
            self._value(item.type, None, child, place)
            self._close(opened)
        else:
            self._null(child, place, "missing")

    def _value(self, writer: AvroType, reader: AvroType | None, child: int, place: str) -> None:
        if not isinstance(writer, Union):
            self._single(writer, reader, child, place, None)
            return
        values = value_branches(writer)
        null_passes = (
            reader is None or is_null(reader) or (isinstance(reader, Union) and any(map(is_null, reader.branches)))
        )
        if len(writer.branches) == 2 and len(values) == 1 and null_passes:
            null = int(is_null(writer.branches[1]))
            reason = -1
            if not self.columns[child].field.nullable:
                reason = len(self.reasons)
                self.reasons.append(_null_reason(place, "null"))
            opened = self._open(Instruction(Op.NULLABLE, child, first=null, second=reason))
            self._single(values[0], reader, child, place, writer)
            self._close(opened)
            return
        self._union(writer, reader, child, place)

    def _union(self, writer: Union, reader: AvroType | None, child: int, place: str) -> None:
        """A branch that does not fit makes its rows bad; if none does, the schema cannot be read."""
        first: _MismatchError | None = None
        fits = 0
        union = self._open(Instruction(Op.UNION, child, count=len(writer.branches)))
        for branch in writer.branches:
            opened = self._open(Instruction(Op.BRANCH))
            try:
                self._single(branch, reader, child, place, writer)
                fits += not is_null(branch)
            except _MismatchError as mismatch:
                first = first or mismatch
                self._cut(opened + 1)
                self._bad(str(mismatch))
            self._close(opened)
        if first is not None and not fits:
            raise first
        self._close(union)

    def _single(self, writer: AvroType, reader: AvroType | None, child: int, place: str, union: Union | None) -> None:
        """A type that is no union. `union`: of which it is a branch."""
        if is_null(writer):
            if _takes_null(reader):
                self._null(child, place, "null")
            else:
                self._bad(_null_reason(place, "null"))
            return
        label = type_name(writer)
        if isinstance(reader, Union):
            picked = self._picked(writer, reader, place)
            union, label, reader = reader, branch_names(reader)[picked], reader.branches[picked]
        elif union is not None:
            label = branch_names(union)[next(i for i, branch in enumerate(union.branches) if branch is writer)]
        dtype = self.columns[child].field.type
        if isinstance(dtype, Struct) and _is_split(dtype, union.branches if union else (writer,), label):
            self._branch_of(writer, reader, child, place, label)
        else:
            self._plain(writer, reader, child, place)

    def _picked(self, writer: AvroType, reader: Union, place: str) -> int:
        """The branch of the reader: the first one of the writer's type, else the first one that it can be read as."""
        fitting = [index for index, branch in enumerate(reader.branches) if _fits(writer, branch)]
        if not fitting:
            raise _MismatchError(place, f"no branch of the reader takes {type_name(writer)}")
        same = [index for index in fitting if type_name(reader.branches[index]) == type_name(writer)]
        picked = same[0] if same else fitting[0]
        rounded = [_is_rounded(writer, reader.branches[index]) for index in fitting]
        if not same and rounded[0] and not all(rounded):
            other = type_name(reader.branches[picked])
            self._note(place, f"{type_name(writer)} is rounded to {other}, the first branch that takes it")
        return picked

    def _branch_of(self, writer: AvroType, reader: AvroType | None, child: int, place: str, label: str) -> None:
        """A struct of branches: the value goes to the one of its name, else to the first one that takes it."""
        children = self._children(child)
        first: _MismatchError | None = None
        for target in sorted(children, key=lambda index: self._name(index) != label):
            opened = self._open(Instruction(Op.BRANCH_OF, child, count=1))
            try:
                self._plain(writer, reader, target, f"{place}.{self._name(target)}")
            except _MismatchError as mismatch:
                first = first or mismatch
                self._cut(opened)
                continue
            for other in children:
                if other != target:
                    self._null(other, f"{place}.{self._name(other)}", "not the branch that is set")
            self._close(opened)
            return
        raise first or _MismatchError(place, f"no branch takes {label}")

    def _plain(self, writer: AvroType, reader: AvroType | None, child: int, place: str) -> None:
        if reader is not None and not _fits(writer, reader):
            raise _MismatchError(place, f"{type_name(writer)} cannot be read as {type_name(reader)}")
        dtype = self.columns[child].field.type
        match writer, dtype:
            case Record(), Struct() if writer.logical is None:
                opened = self._open(Instruction(Op.RECORD, child, count=len(writer.fields)))
                self.fields(writer, reader if isinstance(reader, Record) else None, child, place)
                self._close(opened)
            case Array(items), ListOf():
                opened = self._open(Instruction(Op.ARRAY, child))
                inner = reader.items if isinstance(reader, Array) else None
                self._value(items, inner, self._children(child)[0], f"{place}[]")
                self._close(opened)
            case Map(values), ListOf(Struct(entry)) if {item.name for item in entry} == {"key", "value"}:
                self._map(values, reader.values if isinstance(reader, Map) else None, child, place)
            case Enum(), Primitive.STRING:
                self._enum(writer, reader if isinstance(reader, Enum) else None, child)
            case ((Plain() | Fixed() | Record()), _):
                self._leaf(writer, reader, child, place)
            case _:
                raise _misfit(place, writer, dtype)

    def _map(self, values: AvroType, reader: AvroType | None, child: int, place: str) -> None:
        opened = self._open(Instruction(Op.ARRAY, child))
        entry = self._children(child)[0]
        by_name = {self._name(index): index for index in self._children(entry)}
        record = self._open(Instruction(Op.RECORD, entry, count=2))
        self._leaf(Plain(PlainKind.STRING), None, by_name["key"], f"{place}[].key")
        self._value(values, reader, by_name["value"], f"{place}[].value")
        self._close(record)
        self._close(opened)

    def _enum(self, writer: Enum, reader: Enum | None, child: int) -> None:
        first = len(self.symbols)
        for symbol in writer.symbols:
            known: str | None = symbol
            if reader is not None and symbol not in reader.symbols:
                known = reader.default
            data = (known or "").encode()
            self.symbols.append((len(self.pool), -1 if known is None else len(data)))
            self.pool += data
        self.code.append(Instruction(Op.ENUM, child, count=len(writer.symbols), first=first))

    def _leaf(self, writer: Plain | Fixed | Record, reader: AvroType | None, child: int, place: str) -> None:
        dtype = self.columns[child].field.type
        found = _variable_scale(dtype) if isinstance(writer, Record) else leaf(writer, reader, dtype, lossy=self.lossy)
        if found is None:
            raise _misfit(place, writer, dtype)
        self.code.append(replace(found, column=child))

    def _skip(self, writer: AvroType) -> None:
        match writer:
            case Plain() | Fixed():
                self.code.append(skipped(writer))
            case Enum():
                self.code.append(Instruction(Op.SKIP_INTEGER))
            case Array(items):
                opened = self._open(Instruction(Op.ARRAY))
                self._skip(items)
                self._close(opened)
            case Map(values):
                opened = self._open(Instruction(Op.ARRAY))
                record = self._open(Instruction(Op.RECORD, count=2))
                self.code.append(Instruction(Op.SKIP_BINARY))
                self._skip(values)
                self._close(record)
                self._close(opened)
            case Record(_, fields):
                opened = self._open(Instruction(Op.RECORD, count=len(fields)))
                for item in fields:
                    self._skip(item.type)
                self._close(opened)
            case Union(branches):
                opened = self._open(Instruction(Op.UNION, count=len(branches)))
                for branch in branches:
                    one = self._open(Instruction(Op.BRANCH))
                    self._skip(branch)
                    self._close(one)
                self._close(opened)

    def _null(self, child: int, place: str, why: str) -> None:
        if self.columns[child].field.nullable:
            self.code.append(Instruction(Op.NULL, child))
        else:
            self._bad(_null_reason(place, why))

    def _note(self, place: str, what: str) -> None:
        self.notes[_placed(place, what)] = None

    def _bad(self, reason: str) -> None:
        self.code.append(Instruction(Op.BAD, first=len(self.reasons)))
        self.reasons.append(reason)

    def _open(self, instruction: Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def _close(self, opened: int) -> None:
        self.code[opened] = replace(self.code[opened], jump=len(self.code))

    def _cut(self, end: int) -> None:
        del self.code[end:]

    def _children(self, index: int) -> range:
        column = self.columns[index]
        return range(column.first_child, column.first_child + column.child_count)

    def _name(self, index: int) -> str:
        return self.columns[index].field.name


def _fits(writer: AvroType, reader: AvroType) -> bool:
    """Whether values of `writer`, no union, can be read as `reader`, their children left aside."""
    match writer, reader:
        case _, Union(branches):
            return any(_fits(writer, branch) for branch in branches)
        case Plain(one), Plain(other):
            return one is other or other in _PROMOTIONS.get(one, ())
        case Fixed(), Fixed():
            return writer.size == reader.size and _is_named(writer.name, reader.name, reader.aliases)
        case Enum(), Enum():
            return _is_named(writer.name, reader.name, reader.aliases)
        case _:
            return type(writer) is type(reader) and not isinstance(writer, Plain)


def _takes_null(reader: AvroType | None) -> bool:
    return reader is None or any(map(is_null, reader.branches if isinstance(reader, Union) else [reader]))


def _is_rounded(writer: AvroType, reader: AvroType) -> bool:
    return isinstance(writer, Plain) and isinstance(reader, Plain) and (writer.kind, reader.kind) in _ROUNDED


def _is_named(name: str, reader: str, aliases: Sequence[str]) -> bool:
    return short_name(name) in {short_name(reader), *map(short_name, aliases)}


def _is_split(struct: Struct, branches: Sequence[AvroType], label: str) -> bool:
    """Whether the column is a struct of a union's branches, not the struct of a record in it."""
    records = [names for names in map(_struct_names, branches) if names is not None]
    if not records:
        return True
    labels = {label, *map(type_name, branches)}
    return any(item.name in labels and not any(item.name in names for names in records) for item in struct.fields)


def _struct_names(avro: AvroType) -> set[str] | None:
    """The fields of a type that is a struct as a column; None for other types."""
    if isinstance(avro, Record) and avro.logical is None:
        return {item.name for item in avro.fields}
    is_duration = isinstance(avro, Fixed) and avro.logical is not None and avro.logical.name == "duration"
    return {item.name for item in DURATION.fields} if is_duration else None


def _placed(place: str, what: str) -> str:
    return f'field "{place.lstrip(".")}": {what}'


def _null_reason(place: str, why: str) -> str:
    return f'field "{place.lstrip(".")}" is not null but {why}'


def _variable_scale(dtype: DataType) -> Instruction | None:
    is_fit = dtype is Primitive.STRING or isinstance(dtype, Decimal)
    return Instruction(Op.TEXT, first=Text.VARIABLE_SCALE) if is_fit else None


def _misfit(place: str, writer: AvroType, dtype: DataType) -> _MismatchError:
    logical = writer.logical if isinstance(writer, Plain | Fixed | Record) else None
    written = f"{type_name(writer)} ({logical.name})" if logical else type_name(writer)
    if logical is not None and logical.name.endswith("timestamp-nanos"):
        return _MismatchError(place, f"{written} has more digits than {dtype}: declare int64, or lossy: true")
    return _MismatchError(place, f"{written} cannot be read as {dtype}")
