"""Reads Protobuf messages one by one with the protobuf library: the reference for kernels, and their reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headrace.core.errors import UserError
from headrace.core.types import DataType, Field, ListOf, Schema, Struct
from headrace.formats.doubtful_rows import BadMessageError
from headrace.formats.protobuf.columns import NESTING_MAX, misfit, recursion
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.field_kinds import FieldKind, inner_message, is_map, is_wrapper, kind_of
from headrace.formats.protobuf.read_values import BadValueError, Convert, converter

_Fill = Callable[[Any], list[object]]
"""Returns the values of a message's columns. Raises BadMessageError."""


class RowReader:
    """Reads messages of one type to rows of some columns, by name. `read` accepts any bytes.

    A column that the message has no field for is NULL; if it may not be, all rows are bad. Raises UserError with the
    place of a column whose type cannot hold the values of its field.

    missing   the places of columns without a field
    """

    def __init__(self, columns: Schema, message: MessageType) -> None:
        self.missing: list[str] = []
        self._name = message.name
        self._parse = message.made.FromString
        self._pool = message.pool
        self._fill = self._columns(columns.fields, message.descriptor, "", (message.descriptor,))

    def read(self, raw: bytes) -> list[object]:
        """The row of one message: a staging value for each column. Raises BadMessageError."""
        try:
            message = self._parse(raw)
        except DecodeError as cause:
            raise BadMessageError(f"no message {self._name}: {_failure(cause)}") from cause
        # by its type: a field may have the name of a method
        if not type(message).IsInitialized(message):
            missing = type(message).FindInitializationErrors(message)[0]  # type: ignore[attr-defined]
            raise BadMessageError(f'field "{missing}": required but missing')
        return self._fill(message)

    def _columns(
        self, columns: Sequence[Field], message: Descriptor, place: str, above: tuple[Descriptor, ...]
    ) -> _Fill:
        """Reads the columns of a message that is in the messages `above`, itself the last of them."""
        if len(above) > NESTING_MAX:
            raise UserError(f"column {place}: more than {NESTING_MAX} levels")
        parts = [self._column(each, message, f"{place}.{each.name}".lstrip("."), above) for each in columns]
        return lambda value: [read(value) for read in parts]

    def _column(self, column: Field, message: Descriptor, place: str, above: tuple[Descriptor, ...]) -> Convert:
        item = message.fields_by_name.get(column.name)
        if item is None:
            self.missing.append(place)
            return (lambda _: None) if column.nullable else _bad(place, "missing")
        name = column.name
        if item.is_repeated:
            read_all = self._repeated(item, column.type, place, above)
            return lambda value: read_all(getattr(value, name))
        read = self._value(item, column.type, place, above)
        if kind_of(item) is FieldKind.EMPTY and not isinstance(column.type, Struct):
            return lambda value: has(value, name)
        if not item.has_presence:
            return lambda value: read(getattr(value, name))
        absent: Convert = (lambda _: None) if column.nullable else _bad(place, "absent")
        return lambda value: read(getattr(value, name)) if has(value, name) else absent(None)

    def _repeated(self, item: FieldDescriptor, dtype: DataType, place: str, above: tuple[Descriptor, ...]) -> Convert:
        if not isinstance(dtype, ListOf):
            raise misfit(place, item, f"be read as {dtype}")
        if is_map(item):
            return self._map(item, dtype, place, above)
        read = self._value(item, dtype.inner, f"{place}[]", above)
        return lambda values: [read(value) for value in values]

    def _map(self, item: FieldDescriptor, dtype: ListOf, place: str, above: tuple[Descriptor, ...]) -> Convert:
        """Entries sorted by their keys: the library's order differs between processes."""
        entry = dtype.inner
        if not isinstance(entry, Struct) or {each.name for each in entry.fields} != {"key", "value"}:
            raise misfit(place, item, f"be read as {dtype}")
        types = {each.name: each.type for each in entry.fields}
        fields = inner_message(item).fields_by_name
        key = self._value(fields["key"], types["key"], f"{place}[].key", above)
        read = self._value(fields["value"], types["value"], f"{place}[].value", above)

        def convert(values: Any) -> object:
            # text keys that are not UTF-8 are bytes, which do not compare with texts: their converter refuses them
            entries = sorted((key(each), each) for each in values)
            return [{"key": name, "value": read(values[each])} for name, each in entries]

        return convert

    def _value(self, item: FieldDescriptor, dtype: DataType, place: str, above: tuple[Descriptor, ...]) -> Convert:
        """Reads one value of a field."""
        message, kind = item.message_type, kind_of(item)
        if isinstance(dtype, Struct) and message is not None:
            if message in above:
                raise recursion(place, message)
            names = [each.name for each in dtype.fields]
            fill = self._columns(dtype.fields, message, place, (*above, message))
            return lambda value: dict(zip(names, fill(value), strict=True))
        inner = message.fields_by_name["value"] if message is not None and is_wrapper(message) else item
        convert = converter(kind, inner, dtype, self._pool)
        if convert is None:
            raise misfit(place, item, f"be read as {dtype}")
        if kind is FieldKind.EMPTY:
            return lambda _: True
        return _placed(place, convert) if inner is item else _placed(place, lambda value: convert(value.value))


def has(message: Message, name: str) -> bool:
    """Whether a message has a value of a field. By its type: a field may have the name of a method."""
    return type(message).HasField(message, name)


def _bad(place: str, why: str) -> Convert:
    reason = f'field "{place}" is not null but {why}'

    def convert(_: object) -> object:
        raise BadMessageError(reason)

    return convert


def _placed(place: str, convert: Convert) -> Convert:
    def placed(value: object) -> object:
        try:
            return convert(value)
        except BadValueError as bad:
            raise BadMessageError(f'field "{place}": {bad}') from None

    return placed


def _failure(cause: DecodeError) -> str:
    """The library's reason without the name of the type."""
    return str(cause).rpartition("': ")[2]
