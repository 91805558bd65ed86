"""Decodes JSON messages with a kernel; the row reader reads the messages in doubt, and all messages without kernels.

The row reader is the reference implementation: it reads messages one by one, exactly, and reports the reason for a bad
one. If an object names a field twice, the first one counts. A value that no column can hold makes a message bad only
where a column reads it.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import assert_never

import orjson

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats import text_values as text
from headrace.formats.doubtful_rows import BadMessageError, MessageDecoder
from headrace.formats.json.unreadable import half_pair, readable
from headrace.kernels.decode.json_decode import json_kernel

Convert = Callable[[object], object]
"""Converts a parsed JSON value that is not null to the value of a staging column. Raises BadValueError."""
_SHOWN_MAX = 40
_INT_BYTES_MAX = 4_300
_TOKEN = re.compile(r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|[^\s"\[\]{},:]+""")
"""Of JSON that is valid: a string, a bracket, a number or a word. Possessive: nothing is kept to go back to."""


def json_decoder(schema: Schema, *, strict: bool = False, kernels: bool = True) -> MessageDecoder:
    """A decoder of messages of one schema. Without `kernels` the row reader reads all of them."""
    # to the kernel, messages with unreadable values are in doubt
    return MessageDecoder(schema, json_kernel(schema) if kernels else None, RowReader(schema, strict=strict))


class BadValueError(BadMessageError):
    """A message, or a value in it, does not match the schema. `path` grows from the inner value outwards."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    def inside(self, step: str) -> BadValueError:
        """The same error with `step` before its path: the value's place in its container."""
        joined = step if not self.path else step + self.path if self.path.startswith("[") else f"{step}.{self.path}"
        return BadValueError(self.what, joined)

    def __str__(self) -> str:
        """The reason: one short line."""
        return f'field "{_shorten(self.path)}"{self.what}' if self.path else self.what


class RowReader:
    """Reads messages of one schema.

    `read` accepts any bytes. Only this class decides whether a message matches the schema.

    strict: a value that no column can hold (`unreadable`) makes a message bad wherever it stands, not only where a
    column reads it
    """

    def __init__(self, schema: Schema, *, strict: bool = False) -> None:
        self._strict = strict
        self._fields = [(item.name, _converter(item.type), item.nullable) for item in schema]
        self._exact_numbers = any(_holds_decimal(item.type) for item in schema)
        self._keys = [orjson.dumps(name) for name in _names(schema.fields)]

    def read(self, raw: bytes) -> list[object]:
        """The row of one message: a staging value for each column. Raises BadValueError."""
        parsed = self._parse(raw)
        try:
            return self._convert(parsed)
        except _InexactNumberError:
            return self._convert(_parse_exactly(raw))

    def _parse(self, raw: bytes) -> dict[str, object]:
        is_readable = True
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError as cause:
            if self._strict:
                raise BadValueError(_not_json(raw, cause)) from cause
            parsed, is_readable = _parse_readable(raw, cause), False
        if type(parsed) is not dict:
            raise BadValueError(f"not an object: {_kind(parsed)}")
        if self._exact_numbers or not is_readable or b"\\" in raw:
            return _parse_exactly(raw)
        count = raw.count
        for key in self._keys:
            if count(key) > 1:
                return _parse_exactly(raw)
        return parsed

    def _convert(self, parsed: dict[str, object]) -> list[object]:
        return _convert_fields(parsed, self._fields)


class _InexactNumberError(Exception):
    """An integer column met a number with a fraction or exponent, whose exact value only its text tells."""


def _convert_fields(parsed: dict[str, object], fields: Sequence[tuple[str, Convert, bool]]) -> list[object]:
    row = []
    for name, convert, nullable in fields:
        value = parsed.get(name)
        if value is not None:
            try:
                value = convert(value)
            except BadValueError as bad:
                raise bad.inside(name) from None
        elif not nullable:
            raise BadValueError(f" is not null but {'null' if name in parsed else 'missing'}", name)
        row.append(value)
    return row


def _parse_readable(raw: bytes, cause: orjson.JSONDecodeError) -> object:
    """The value of a message that orjson rejects for unreadable values only, with others in their place. Raises
    BadValueError."""
    try:
        text = readable(raw.decode())
        return orjson.loads(text)
    except UnicodeDecodeError:
        raise BadValueError(_not_json(raw, cause)) from cause
    except orjson.JSONDecodeError as other:
        raise BadValueError(_not_json(raw, other)) from other


def _exact_int(literal: str) -> int | decimal.Decimal:
    # Python converts no longer ones
    return int(literal) if len(literal) <= _INT_BYTES_MAX else decimal.Decimal(literal)


def _exact_float(literal: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(literal)
    except decimal.InvalidOperation:  # an exponent beyond 10^18
        digits, _, exponent = literal.lower().partition("e")
        mantissa = decimal.Decimal(digits)
        # 1e-999999999999999999 stands for what is smaller: neither is an integer, and both are 0.0 as a float; the
        # greatest one for what is greater: no column holds either
        bound = decimal.MIN_EMIN if exponent.startswith("-") else decimal.MAX_EMAX
        return decimal.Decimal(f"{mantissa.scaleb(-mantissa.adjusted())}e{bound}") if mantissa else mantissa


def _first_of_equal_keys(members: Sequence[tuple[object, object]]) -> dict[object, object]:
    return dict(reversed(members))


_EXACT = json.JSONDecoder(parse_int=_exact_int, parse_float=_exact_float, object_pairs_hook=_first_of_equal_keys)


def _parse_exactly(raw: bytes) -> dict[str, object]:
    """A message that is JSON, with the first of equal keys, numbers with a point or exponent as decimals, and halves of
    surrogate pairs in its strings."""
    text = raw.decode()
    try:
        exact: dict[str, object] = _EXACT.decode(text)
    except RecursionError:  # the caller's stack leaves fewer levels than the 1024 that orjson accepts
        exact = _parse_level_by_level(text)
    return exact


def _parse_level_by_level(text: str) -> dict[str, object]:
    """The same result without recursion: ten times slower."""
    containers: list[list[object]] = [[]]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("[", "{"):
            containers.append([])
        elif token == "]":
            items = containers.pop()
            containers[-1].append(items)
        elif token == "}":
            members = iter(containers.pop())
            containers[-1].append(_first_of_equal_keys(list(zip(members, members, strict=True))))
        else:
            containers[-1].append(_EXACT.decode(token))
    ((root,),) = containers
    assert type(root) is dict, "orjson returned one"
    return root


def _converter(dtype: DataType) -> Convert:
    match dtype:
        case Primitive():
            return _PRIMITIVES[dtype]
        case Decimal():
            return _decimal_converter(dtype)
        case Timestamp():
            return _timestamp_converter(dtype)
        case ListOf():
            return _list_converter(dtype)
        case Struct():
            return _struct_converter(dtype)
        case _:
            assert_never(dtype)


def _bool(value: object) -> object:
    if type(value) is not bool:
        raise _expected("bool", value)
    return value


def _int_converter(name: str, low: int, high: int) -> Convert:
    def convert(value: object) -> object:
        if type(value) is float:
            raise _InexactNumberError
        if type(value) is decimal.Decimal and _is_integer(value):
            value = int(value)
        if type(value) is not int:
            raise _expected(name, value)
        if not low <= value <= high:
            raise _expected(name, value)
        return value

    return convert


def _is_integer(value: decimal.Decimal) -> bool:
    return value.copy_abs() < 1 << 64 and value == value.to_integral_value()


def _float64(value: object) -> object:
    if type(value) is float:
        return value
    if type(value) is int or type(value) is decimal.Decimal:
        number = _nearest_float(value)
        if not math.isinf(number):
            return number
    raise _expected("float64", value)


def _nearest_float(value: float | decimal.Decimal) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that rounds to infinity
        return math.inf


def _float32(value: object) -> object:
    if type(value) is not float and type(value) is not int and type(value) is not decimal.Decimal:
        raise _expected("float32", value)
    if abs(number := _nearest_float(value)) >= text.FLOAT32_LIMIT:
        raise _expected("float32", value)
    return number


def _string(value: object) -> object:
    if type(value) is not str:
        raise _expected("string", value)
    if half := half_pair(value):
        raise BadValueError(f": expected string, found half of a surrogate pair, {half}")
    return value


def _binary(value: object) -> object:
    decoded = text.parse_base64(value) if type(value) is str else None
    if decoded is None:
        raise _expected("binary (base64)", value)
    return decoded


def _date(value: object) -> object:
    days = text.parse_date(value) if type(value) is str else None
    if days is None:
        raise _expected("date (YYYY-MM-DD)", value)
    return days


_PRIMITIVES: dict[Primitive, Convert] = {
    Primitive.BOOL: _bool,
    Primitive.INT32: _int_converter("int32", text.INT32_MIN, text.INT32_MAX),
    Primitive.INT64: _int_converter("int64", text.INT64_MIN, text.INT64_MAX),
    Primitive.FLOAT32: _float32,
    Primitive.FLOAT64: _float64,
    Primitive.STRING: _string,
    Primitive.BINARY: _binary,
    Primitive.DATE: _date,
}


def _decimal_converter(dtype: Decimal) -> Convert:
    def convert(value: object) -> object:
        found = None
        if type(value) is str:
            found = text.parse_decimal(value, dtype.precision, dtype.scale)
        elif type(value) is int or type(value) is decimal.Decimal:
            found = text.fit_decimal(decimal.Decimal(value), dtype.precision, dtype.scale)
        if found is None:
            raise _expected(str(dtype), value)
        return found

    return convert


def _timestamp_converter(dtype: Timestamp) -> Convert:
    def convert(value: object) -> object:
        found = None
        if type(value) is str:
            found = text.parse_timestamp(value)
        elif type(value) is int:
            found = text.scale_timestamp(value, dtype.unit)
        elif type(value) is float:
            raise _InexactNumberError
        elif type(value) is decimal.Decimal and _is_integer(value):
            found = text.scale_timestamp(int(value), dtype.unit)
        if found is None:
            raise _expected("timestamp", value)
        return found

    return convert


def _list_converter(dtype: ListOf) -> Convert:
    convert_inner = _converter(dtype.inner)

    def convert(value: object) -> object:
        if type(value) is not list:
            raise _expected(str(dtype), value)
        converted: list[object] = []
        for index, item in enumerate(value):
            if item is None:
                if not dtype.nullable:
                    raise BadValueError(" is not null but null", f"[{index}]")
                converted.append(None)
                continue
            try:
                converted.append(convert_inner(item))
            except BadValueError as bad:
                raise bad.inside(f"[{index}]") from None
        return converted

    return convert


def _struct_converter(dtype: Struct) -> Convert:
    names = [item.name for item in dtype.fields]
    fields = [(item.name, _converter(item.type), item.nullable) for item in dtype.fields]

    def convert(value: object) -> object:
        if type(value) is not dict:
            raise _expected(str(dtype), value)
        return dict(zip(names, _convert_fields(value, fields), strict=True))

    return convert


def _expected(name: str, value: object) -> BadValueError:
    return BadValueError(f": expected {_shorten(name)}, found {_found(value)}")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float() | decimal.Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _found(value: object) -> str:
    match value:
        case bool():
            return f"boolean {'true' if value else 'false'}"
        case int() | float() | decimal.Decimal():
            return f"number {_shorten(str(value))}"
        case str():
            return f'string "{_shorten(value)}"'
        case _:
            return _kind(value)


def _shorten(value: str) -> str:
    shown = value if len(value) <= _SHOWN_MAX else value[:_SHOWN_MAX] + ".."
    return shown.encode(errors="backslashreplace").decode()  # half of a surrogate pair cannot be written


def _not_json(raw: bytes, cause: orjson.JSONDecodeError) -> str:
    if not raw.strip(b" \t\r\n"):
        return "empty message"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{raw[error.start]:02x} at {error.start}"
    return f"not JSON: {cause.msg} at character {cause.pos}"


def _names(fields: Sequence[Field]) -> set[str]:
    names = set()
    for item in fields:
        names.add(item.name)
        names |= _inner_names(item.type)
    return names


def _inner_names(dtype: DataType) -> set[str]:
    match dtype:
        case ListOf(inner):
            return _inner_names(inner)
        case Struct(fields):
            return _names(fields)
        case _:
            return set()


def _holds_decimal(dtype: DataType) -> bool:
    match dtype:
        case Decimal():
            return True
        case ListOf(inner):
            return _holds_decimal(inner)
        case Struct(fields):
            return any(_holds_decimal(item.type) for item in fields)
        case _:
            return False
