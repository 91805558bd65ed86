"""Columns for the fields of a message.

    scalar without presence      its type, not null: an absent value is the default
    scalar with presence         its type; NULL when absent
    required                     its type, not null: a message without it is bad
    message, group               struct; NULL when absent. A message without fields: bool, whether it is there
    repeated                     list of items that are not null, empty when absent
    map                          list of {key, value}, sorted by key
    uint32, uint64               int64, decimal(20,0)
    enum                         string: its name, or its number in digits if it has no name
    wrapper (Int64Value)         the scalar; NULL when absent
    Timestamp, Duration          timestamp, int64 microseconds; nanoseconds are rounded down
    Struct, Value, ListValue,    string: Protobuf's JSON with sorted keys
    Any, FieldMask

`field_kinds.COLUMN_TYPES` has the types, `read_values` wider ones that a column may be declared as. Unknown fields and
extensions are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.core.errors import UserError
from headrace.core.types import DataType, Field, ListOf, Schema, Struct
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.field_kinds import COLUMN_TYPES, FieldKind, inner_message, is_map, kind_of

NESTING_MAX = 32
"""Most levels of lists and structs in each other: that of kernels."""
_REMEDY_LETTERS_MAX = 200
COLUMNS_MAX = 20_000
"""Most columns of a message, those in structs counted wherever the message is used."""


def columns_of(message: MessageType) -> Schema:
    """The columns that hold every value of a message. Raises UserError with the place of what no columns hold."""
    if not message.descriptor.fields:
        raise UserError(f"the Protobuf message {message.name} has no fields")
    return Schema(_Columns().fields(message.descriptor, "", (message.descriptor,)))


def recursion(place: str, message: Descriptor) -> UserError:
    """The error for a column that reads a message inside of the same message."""
    return UserError(
        f"column {place}: the Protobuf message {message.full_name} contains itself",
        remedy="leave it out of the columns: headrace reads no recursive types",
    )


def misfit(place: str, item: FieldDescriptor, what: str) -> UserError:
    """The error for a column whose type does not hold the values of its field, which cannot `be read as int32`."""
    kind = "a map" if is_map(item) else f"repeated {kind_of(item)}" if item.is_repeated else str(kind_of(item))
    try:
        remedy = f"declare {_Columns().column(item, place, ()).type_text}"
    except UserError as cause:
        remedy = cause.message
    shown = remedy if len(remedy) <= _REMEDY_LETTERS_MAX else "declare a struct of its fields"
    return UserError(f"column {place}: {kind} cannot {what}", remedy=shown)


@dataclass(slots=True)
class _Columns:
    """Makes columns; `count` is how many."""

    count: int = field(default=0)

    def fields(self, message: Descriptor, place: str, above: tuple[Descriptor, ...]) -> tuple[Field, ...]:
        """The columns of a message that is in the messages `above`, itself the last of them."""
        self.count += len(message.fields)
        if self.count > COLUMNS_MAX or len(above) > NESTING_MAX:
            raise UserError(
                f"column {place}: a Protobuf message of more than {COLUMNS_MAX:,} columns or {NESTING_MAX} levels",
                remedy="write the columns that are needed",
            )
        return tuple(self.column(each, f"{place}.{each.name}".lstrip("."), above) for each in message.fields)

    def column(self, item: FieldDescriptor, place: str, above: tuple[Descriptor, ...]) -> Field:
        if is_map(item):
            entry = Struct(tuple(self._entry(each, place, above) for each in inner_message(item).fields))
            return Field(item.name, ListOf(entry, nullable=False), nullable=False)
        dtype = self._type(item, place, above)
        if item.is_repeated:
            return Field(item.name, ListOf(dtype, nullable=False), nullable=False)
        return Field(item.name, dtype, nullable=is_nullable(item))

    def _entry(self, item: FieldDescriptor, place: str, above: tuple[Descriptor, ...]) -> Field:
        return Field(item.name, self._type(item, f"{place}[].{item.name}", above), nullable=False)

    def _type(self, item: FieldDescriptor, place: str, above: tuple[Descriptor, ...]) -> DataType:
        dtype = COLUMN_TYPES.get(kind_of(item))
        if dtype is not None:
            return dtype
        message = inner_message(item)
        if message in above:
            raise recursion(place, message)
        return Struct(self.fields(message, place, (*above, message)))


def is_nullable(item: FieldDescriptor) -> bool:
    """Whether a message may lack the value of a field that is neither repeated nor required, and a reader can tell."""
    return item.has_presence and not item.is_required and kind_of(item) is not FieldKind.EMPTY
