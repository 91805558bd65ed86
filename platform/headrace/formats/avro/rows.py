"""Reads Avro messages one by one: the reference for the kernel, which runs the same program.

fastavro reads the bytes, by a schema that has the writer's types without their meaning: enums and ints are longs, texts
are bytes, maps are arrays of entries, and each branch of a union is a record of its own, so that the value tells which
branch it has. What fastavro accepts is accepted here, such as a boolean that is neither 0 nor 1.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence

import fastavro

from headrace.core.types import Schema
from headrace.formats.avro.leaf_values import BadValueError, leaf_converter
from headrace.formats.avro.resolve import Program
from headrace.formats.avro.schema import Array, AvroType, Enum, Fixed, Map, Plain, PlainKind, Record, Union
from headrace.formats.doubtful_rows import BadMessageError
from headrace.kernels.avro_instruction import Instruction
from headrace.kernels.decode.avro_program import Op
from headrace.kernels.decode.columns import Column, ColumnLayout, Kind

Convert = Callable[[object], object]
"""Converts a value that fastavro read to the value of a staging column. Raises BadMessageError."""
_FAILURES = (EOFError, IndexError, ValueError, OverflowError, MemoryError, struct.error)
"""What fastavro raises for bytes that are no message of its schema."""
_PLAIN = {
    PlainKind.INT: "long",
    PlainKind.STRING: "bytes",
}


class RowReader:
    """Reads messages of one program. `read` accepts any bytes."""

    def __init__(self, program: Program, columns: Schema) -> None:
        self._read = _value_reader(program.writer)
        self._convert = _Compiler(program, columns).row()

    def read(self, raw: bytes) -> list[object]:
        """The row of one message: a staging value for each column. Raises BadMessageError."""
        source = io.BytesIO(raw)
        try:
            value = self._read(source)
        except _FAILURES as cause:
            raise BadMessageError(f"no message of the writer's schema: {_failure(cause)}") from cause
        if rest := len(raw) - source.tell():
            raise BadMessageError(f"no message of the writer's schema: {rest} bytes behind it")
        return self._convert(value)


def _failure(cause: BaseException) -> str:
    if isinstance(cause, EOFError) or "string index" in str(cause):
        return "it ends early"
    return "a union has no such branch" if isinstance(cause, IndexError) else str(cause)


def _value_reader(avro: AvroType) -> Convert:
    schema = fastavro.parse_schema(_physical(avro, itertools.count()))  # type: ignore[arg-type]

    def read(source: object) -> object:
        return fastavro.schemaless_reader(source, schema, None)  # type: ignore[arg-type]

    return read


def _physical(avro: AvroType, numbers: Iterator[int]) -> object:
    """The schema for fastavro. Types that are used twice stand there twice, by other names."""
    match avro:
        case Plain(kind):
            return _PLAIN.get(kind, str(kind))
        case Enum():
            return "long"
        case Fixed():
            return {"type": "fixed", "name": f"F{next(numbers)}", "size": avro.size}
        case Array(items):
            return {"type": "array", "items": _physical(items, numbers)}
        case Map(values):
            return {"type": "array", "items": _record([Plain(PlainKind.BYTES), values], numbers)}
        case Record(_, fields):
            return _record([item.type for item in fields], numbers)
        case Union(branches):
            return [_record([branch], numbers, index) for index, branch in enumerate(branches)]


def _record(types: Sequence[AvroType], numbers: Iterator[int], first: int = 0) -> object:
    name = f"R{next(numbers)}"
    fields = [{"name": f"f{first + index}", "type": _physical(avro, numbers)} for index, avro in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def _places(columns: Sequence[Column]) -> list[str]:
    """The place of each column, as reasons name it."""
    places = [""] * len(columns)
    for index, column in enumerate(columns):
        for child in range(column.first_child, column.first_child + column.child_count):
            step = "[]" if column.kind is Kind.LIST else f".{columns[child].field.name}"
            places[child] = (places[index] + step).lstrip(".")
    return places


def _values(record: object) -> Sequence[object]:
    return tuple(record.values())  # type: ignore[attr-defined]


class _Compiler:
    """Makes the converters of a program's instructions."""

    def __init__(self, program: Program, columns: Schema) -> None:
        self._program = program
        self._code = program.code.instructions
        self._columns = ColumnLayout(columns).columns
        self._places = _places(self._columns)

    def row(self) -> Callable[[object], list[object]]:
        """The converter of a whole message."""
        fill = self._fields(0, len(self._code), len(self._program.writer.fields), 0)
        return lambda value: fill(_values(value))

    def _fields(self, begin: int, end: int, count: int, column: int) -> Callable[[Sequence[object]], list[object]]:
        """Converts the values of a record's `count` fields to those of the children of `column`, in their order."""
        first = self._columns[column].first_child
        read: list[tuple[int, int, Convert]] = []
        for source, at in enumerate(self._siblings(begin, end)):
            instruction = self._code[at]
            # that of a bad row writes nothing
            if instruction.column >= 0 or instruction.op is Op.BAD:
                read.append((source, max(instruction.column - first, 0), self._convert(at)))
        width = self._columns[column].child_count

        def fill(values: Sequence[object]) -> list[object]:
            row: list[object] = [None] * width
            for source, target, convert in read:
                row[target] = convert(values[source] if source < count else None)
            return row

        return fill

    def _siblings(self, begin: int, end: int) -> Iterator[int]:
        while begin < end:
            yield begin
            begin = self._code[begin].jump or begin + 1

    def _convert(self, at: int) -> Convert:
        instruction = self._code[at]
        match instruction.op:
            case Op.NULL:
                return lambda _: None
            case Op.BAD:
                return self._bad(instruction.first)
            case Op.CONSTANT:
                return self._constant(at)
            case Op.RECORD | Op.BRANCH_OF:
                return self._struct(at)
            case Op.UNION:
                return self._union(at)
            case Op.NULLABLE:
                return self._nullable(at)
            case Op.ARRAY:
                convert = self._convert(at + 1)
                return lambda value: [convert(item) for item in value]  # type: ignore[attr-defined]
            case Op.ENUM:
                return self._enum(instruction)
            case _:
                return self._leaf(instruction)

    def _bad(self, index: int) -> Convert:
        reason = self._program.reasons[index]

        def convert(_: object) -> object:
            raise BadMessageError(reason)

        return convert

    def _constant(self, at: int) -> Convert:
        instruction = self._code[at]
        data = self._program.code.pool[instruction.first : instruction.first + instruction.count]
        value = _value_reader(self._program.constants[instruction.first])(io.BytesIO(data))
        convert = self._convert(at + 1)
        return lambda _: convert(value)

    def _struct(self, at: int) -> Convert:
        instruction = self._code[at]
        column = self._columns[instruction.column]
        names = [self._columns[column.first_child + child].field.name for child in range(column.child_count)]
        fill = self._fields(at + 1, instruction.jump, instruction.count, instruction.column)
        if instruction.op is Op.BRANCH_OF:
            return lambda value: dict(zip(names, fill((value,)), strict=True))
        return lambda value: dict(zip(names, fill(_values(value)), strict=True))

    def _union(self, at: int) -> Convert:
        branches = {
            f"f{index}": self._convert(one + 1) for index, one in enumerate(self._siblings(at + 1, self._code[at].jump))
        }

        def convert(value: object) -> object:
            ((name, inner),) = value.items()  # type: ignore[attr-defined]
            return branches[name](inner)

        return convert

    def _nullable(self, at: int) -> Convert:
        instruction = self._code[at]
        null = f"f{instruction.first}"
        inner = self._convert(at + 1)
        when_null = (lambda _: None) if instruction.second < 0 else self._bad(instruction.second)

        def convert(value: object) -> object:
            ((name, item),) = value.items()  # type: ignore[attr-defined]
            return when_null(None) if name == null else inner(item)

        return convert

    def _enum(self, instruction: Instruction) -> Convert:
        place = self._places[instruction.column]
        pool, symbols = self._program.code.pool, []
        for begin, length in self._program.code.symbols[instruction.first : instruction.first + instruction.count]:
            symbols.append(None if length < 0 else pool[begin : begin + length].decode())

        def convert(value: object) -> object:
            assert isinstance(value, int)
            if not 0 <= value < len(symbols):
                raise BadMessageError(f'field "{place}": an enum has no symbol {value}')
            if symbols[value] is None:
                raise BadMessageError(f'field "{place}": a symbol that the reader\'s schema lacks')
            return symbols[value]

        return convert

    def _leaf(self, instruction: Instruction) -> Convert:
        column = self._columns[instruction.column]
        convert = leaf_converter(instruction, column.field.type)
        place = self._places[instruction.column]

        def placed(value: object) -> object:
            try:
                return convert(value)
            except BadValueError as bad:
                raise BadMessageError(f'field "{place}": {bad}') from None

        return placed
