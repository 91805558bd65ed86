"""Writes Protobuf messages one by one with the protobuf library: equal rows have equal bytes.

Fields are written from the columns of their names. A column without a field is refused: its values would be lost. A
field without a column is absent, which a required one cannot be. Values are those of staging columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from headrace.core.errors import DataError, UserError
from headrace.core.types import DataType, Field, ListOf, Primitive, Schema, Struct
from headrace.formats.protobuf.columns import NESTING_MAX, misfit, recursion
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.field_kinds import FieldKind, inner_message, is_map, is_wrapper, kind_of
from headrace.formats.protobuf.write_values import Convert, Fill, MisfitError, message_filler, scalar_converter

_Above = tuple[Descriptor, ...]
_REMEDY = "filter or correct such rows before the sink"


class RowWriter:
    """Writes rows of some columns as messages of one type. Raises UserError with the place of what does not fit."""

    def __init__(self, columns: Schema, message: MessageType) -> None:
        self._made = message.made
        self._serialize = message.made.SerializeToString
        self._pool = message.pool
        self._fill = self._struct(columns.fields, message.descriptor, "", (message.descriptor,))

    def write(self, row: Mapping[str, Any]) -> bytes:
        """The message of one row. Raises DataError with the column that does not fit."""
        message = self._made()
        self._fill(message, row)
        try:
            return self._serialize(message, deterministic=True)
        except (EncodeError, ValueError) as cause:
            raise DataError(f"no message can be made of this row: {cause}", remedy=_REMEDY) from cause

    def _struct(self, columns: Sequence[Field], message: Descriptor, place: str, above: _Above) -> Fill:
        """Fills a message, the last of those in `above`, from a value of each column."""
        if len(above) > NESTING_MAX:
            raise UserError(f"column {place}: more than {NESTING_MAX} levels")
        names = {each.name for each in columns}
        for field in message.fields:
            if field.is_required and field.name not in names:
                inside = f"{place}.{field.name}".lstrip(".")
                raise UserError(f"column {inside}: a required field of {message.full_name} that no column has")
        parts = [
            (each.name, self._column(each, message, f"{place}.{each.name}".lstrip("."), above)) for each in columns
        ]
        check = _oneofs(message, names, place)

        def fill(made: Any, row: Mapping[str, Any]) -> None:
            for name, write in parts:
                write(made, row[name])
            check(row)

        return fill

    def _column(self, column: Field, message: Descriptor, place: str, above: _Above) -> Fill:
        field = message.fields_by_name.get(column.name)
        if field is None:
            raise UserError(
                f"column {place}: the Protobuf message {message.full_name} has no such field",
                remedy="its values would be lost: drop the column, or add a field",
            )
        if is_map(field):
            return self._map(field, column.type, place, above)
        if field.is_repeated:
            return self._list(field, column.type, place, above)
        write = self._single(field, column.type, place, above)
        if field.has_presence and not field.is_required:
            return lambda made, value: None if value is None else write(made, value)
        return _required(place, write, "a field that cannot be absent")

    def _single(self, field: FieldDescriptor, dtype: DataType, place: str, above: _Above) -> Fill:
        """Writes a value to a field that is not repeated."""
        name = field.name
        if field.message_type is None:
            convert = self._scalar(field, dtype, place)
            return lambda made, value: setattr(made, name, convert(value))
        fill = self._message(field, dtype, place, above)
        is_flag = _is_flag(field, dtype)

        def write(made: Any, value: Any) -> None:
            if is_flag and not value:
                return
            inner = getattr(made, name)
            # a message without values is present, too
            type(inner).SetInParent(inner)
            fill(inner, value)

        return write

    def _scalar(self, field: FieldDescriptor, dtype: DataType, place: str) -> Convert:
        convert = scalar_converter(kind_of(field), field, dtype)
        if convert is None:
            raise _unwritable(place, field, dtype)

        def placed(value: Any) -> Any:
            try:
                return convert(value)
            except MisfitError as cause:
                raise _refused(place, str(cause)) from cause

        return placed

    def _message(self, field: FieldDescriptor, dtype: DataType, place: str, above: _Above) -> Fill:
        """Fills a message that is the value of a field or of an item."""
        message = inner_message(field)
        if isinstance(dtype, Struct):
            if message in above:
                raise recursion(place, message)
            return self._struct(dtype.fields, message, place, (*above, message))
        if is_wrapper(message):
            convert = scalar_converter(kind_of(field), message.fields_by_name["value"], dtype)
            inner: Fill | None = None if convert is None else _wrapped(convert)
        else:
            inner = message_filler(kind_of(field), dtype, self._pool)
        if _is_flag(field, dtype):
            return lambda made, value: None
        if inner is None:
            raise _unwritable(place, field, dtype)
        return _placed(place, inner)

    def _list(self, field: FieldDescriptor, dtype: DataType, place: str, above: _Above) -> Fill:
        if not isinstance(dtype, ListOf):
            raise _unwritable(place, field, dtype)
        name, inside = field.name, f"{place}[]"
        if field.message_type is None:
            convert = self._scalar(field, dtype.inner, inside)
            append: Fill = lambda made, value: made.append(convert(value))  # noqa: E731
        else:
            fill, is_flag = self._message(field, dtype.inner, inside, above), _is_flag(field, dtype.inner)

            def append(made: Any, value: Any) -> None:
                if is_flag and not value:
                    raise _refused(inside, "false, where a message is present or not an item")
                fill(made.add(), value)

        item = _required(inside, append, "an item of a repeated field")

        def write(made: Any, values: Sequence[Any]) -> None:
            items = getattr(made, name)
            for value in values:
                item(items, value)

        return _required(place, write, "a repeated field, which is empty but never NULL")

    def _map(self, field: FieldDescriptor, dtype: DataType, place: str, above: _Above) -> Fill:
        entry = dtype.inner if isinstance(dtype, ListOf) else None
        if not isinstance(entry, Struct) or {each.name for each in entry.fields} != {"key", "value"}:
            raise _unwritable(place, field, dtype)
        types, name = {each.name: each.type for each in entry.fields}, field.name
        fields = inner_message(field).fields_by_name
        key = self._scalar(fields["key"], types["key"], f"{place}[].key")
        put = self._map_value(fields["value"], types["value"], f"{place}[].value", above)

        def write(made: Any, entries: Sequence[Any]) -> None:
            items = getattr(made, name)
            for each in entries:
                if each is None or each["key"] is None or each["value"] is None:
                    raise _refused(place, "NULL as an entry, key or value of a map")
                converted = key(each["key"])
                if converted in items:
                    raise _refused(place, f"the key {converted!r:.40} twice, where a map has it once")
                put(items, converted, each["value"])

        return _required(place, write, "a map, which is empty but never NULL")

    def _map_value(
        self, field: FieldDescriptor, dtype: DataType, place: str, above: _Above
    ) -> Callable[[Any, Any, Any], None]:
        if field.message_type is None:
            convert = self._scalar(field, dtype, place)
            return lambda items, key, value: items.__setitem__(key, convert(value))
        fill, is_flag = self._message(field, dtype, place, above), _is_flag(field, dtype)

        def put(items: Any, key: Any, value: Any) -> None:
            if is_flag and not value:
                raise _refused(place, "false, where the value of a map is present")
            fill(items[key], value)

        return put


def _oneofs(message: Descriptor, names: set[str], place: str) -> Callable[[Mapping[str, Any]], None]:
    """Refuses rows that have values for two members of a oneof: the library would keep the last."""
    groups = [
        (each.name, members)
        for each in message.oneofs
        if len(members := [field.name for field in each.fields if field.name in names]) > 1
    ]
    flags = {field.name for each in message.oneofs for field in each.fields if kind_of(field) is FieldKind.EMPTY}

    def check(row: Mapping[str, Any]) -> None:
        for name, members in groups:
            is_set = [each for each in members if row[each] is not None and not (each in flags and row[each] is False)]
            if len(is_set) > 1:
                raise _refused(
                    f"{place}.{is_set[1]}".lstrip("."), f"{' and '.join(is_set)} are set, of the oneof {name}"
                )

    return check


def _is_flag(field: FieldDescriptor, dtype: DataType) -> bool:
    """Whether a column says only that a message without fields is there."""
    return kind_of(field) is FieldKind.EMPTY and dtype is Primitive.BOOL


def _wrapped(convert: Convert) -> Fill:
    return lambda made, value: setattr(made, "value", convert(value))


def _required(place: str, write: Fill, what: str) -> Fill:
    def checked(made: Any, value: Any) -> None:
        if value is None:
            raise _refused(place, f"NULL, for {what}")
        write(made, value)

    return checked


def _placed(place: str, fill: Fill) -> Fill:
    def placed(made: Any, value: Any) -> None:
        try:
            fill(made, value)
        except MisfitError as cause:
            raise _refused(place, str(cause)) from cause

    return placed


def _unwritable(place: str, field: FieldDescriptor, dtype: DataType) -> UserError:
    return misfit(place, field, f"be written from {dtype}")


def _refused(place: str, what: str) -> DataError:
    return DataError(f"column {place}: {what}", remedy=_REMEDY)
