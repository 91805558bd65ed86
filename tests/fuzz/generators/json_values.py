"""Random JSON values: of one type, or of any, right, unusual or broken."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz.generators.damage import damaged
from fuzz.generators.json_strings import broken_string, edge_string, escaped, plain_string
from fuzz.generators.numbers import (
    broken_number,
    edge_decimal,
    edge_float,
    edge_integer,
    plain_decimal,
    plain_float,
    plain_integer,
)
from fuzz.generators.text_values import (
    edge_base64,
    edge_date,
    edge_epoch,
    edge_timestamp,
    plain_base64,
    plain_date,
    plain_epoch,
    plain_timestamp,
)
from headrace.core.types import Decimal, Primitive, Timestamp
from headrace.formats.text_values import INT32_MAX, INT64_MAX

Write = Callable[[Random], str]
Forms = tuple[Write, Write]
"""A plain value of one type, and one at the edge of it, which may lie outside."""

_BROKEN_LITERALS = (
    *("True", "False", "None", "nul", "nulll", "fals", "falsee", "tru", "truee", "t", "f", "n", "NULL", "nu"),
    "undefined",
    *("", "'a'", "//", "/**/1", "\\", "[", "{", "]", "}", ",", ":", "[1,]", "[,1]", "[1 2]", '{"a"}', '{"a":}'),
    "{a:1}",
    *('{"a";1}', '{"a" 12}', '{"a","b"}', '{"a"x"b"}', '{"a":1;"b":2}', "[1;2]", '{"a":1}}', '{"":[}', "[{]}"),
    *('{"a":1,}', '{,"a":1}', '{"a" 1}', '{"a"::1}', "{1:1}", "[1}", '{"a":1]', "{null:1}", '{"a":1 "b":2}', "[1]]"),
)
_DEPTHS = (2, 10, 31, 32, 33, 58, 59, 60, 61, 62, 63, 64, 65, 128, 200, 500, 800, 1000, 1023, 1024, 1025)
_ANY_DEPTH_MAX = 4


def forms(dtype: Primitive | Decimal | Timestamp) -> Forms:
    """How values of a type without children are written."""
    match dtype:
        case Decimal():
            return _decimal(dtype)
        case Timestamp():
            return _timestamp(dtype)
        case _:
            return _PRIMITIVES[dtype]


def wrong_value(chance: Random) -> str:
    """A value of any type, or text that is none."""
    return any_value(chance) if chance.random() < 0.6 else broken_value(chance)


def any_value(chance: Random, depth: int = 0) -> str:
    """A value of any type that JSON allows; lists and objects, too."""
    roll = chance.random()
    if roll < 0.4:
        return chance.choice(_SCALARS)(chance)
    if roll < 0.6 or depth >= _ANY_DEPTH_MAX:
        return chance.choice(("null", "true", "false", "{}", "[]", "[ ]", "{\n}", "0"))
    if roll < 0.65:
        return deep_value(chance)
    items = [any_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    comma = chance.choice((",", ", ", " ,", "\n,\t"))
    if roll < 0.8:
        return f"[{comma.join(items)}]"
    colon = chance.choice((":", ": ", " :", " \r\n: "))
    return f"{{{comma.join(f'{plain_string(chance)}{colon}{item}' for item in items)}}}"


def broken_value(chance: Random) -> str:
    """Text that is no JSON value, or a damaged one."""
    return chance.choice((_broken_literal, broken_number, broken_string, _damaged_value))(chance)


def _damaged_value(chance: Random) -> str:
    whole = any_value(chance).encode("utf-8", "surrogateescape")
    return damaged(chance, whole).decode("utf-8", "surrogateescape")


def _broken_literal(chance: Random) -> str:
    return chance.choice(_BROKEN_LITERALS)


def deep_value(chance: Random) -> str:
    """Many levels of lists and objects, sometimes closed in another order."""
    depth = chance.choice(_DEPTHS)
    kinds = [chance.random() < 0.5 for _ in range(depth)] if chance.random() < 0.3 else [chance.random() < 0.5] * depth
    opened = "".join('{"a":' if is_object else "[" for is_object in kinds)
    closed = "".join("}" if is_object else "]" for is_object in reversed(kinds))
    roll = chance.random()
    if roll < 0.1:
        closed = closed[1:]
    elif roll < 0.4:
        # often one of the outermost: a bit for each level may not last that far
        at = chance.randrange(depth) if roll < 0.2 else max(depth - chance.randint(1, 4), 0)
        closed = closed[:at] + chance.choice("]}") + closed[at + 1 :]
    return opened + chance.choice(("1", "null", '""', "[]", "{}")) + closed


def _quoted(write: Write) -> Write:
    return lambda chance: f'"{write(chance)}"'


def _perhaps_escaped(write: Write) -> Write:
    """A string whose text is `write`'s, at times with escapes, as a number, or not closed."""

    def quoted(chance: Random) -> str:
        text, roll = write(chance), chance.random()
        if roll < 0.9:
            return f'"{text}"'
        return escaped(chance, text) if roll < 0.96 else text if roll < 0.98 else f'"{text}'

    return quoted


def _bool(chance: Random) -> str:
    return "true" if chance.random() < 0.5 else "false"


def _edge_string(chance: Random) -> str:
    return edge_string(chance) if chance.random() < 0.85 else broken_string(chance)


def _edge_bool(chance: Random) -> str:
    return chance.choice(("true", "false", '"true"', "0", "1", "null"))


def _integer(largest: int) -> Forms:
    return lambda chance: plain_integer(chance, largest), edge_integer


_PRIMITIVES: dict[Primitive, Forms] = {
    Primitive.BOOL: (_bool, _edge_bool),
    Primitive.INT32: _integer(INT32_MAX),
    Primitive.INT64: _integer(INT64_MAX),
    Primitive.FLOAT32: (plain_float, edge_float),
    Primitive.FLOAT64: (plain_float, edge_float),
    Primitive.STRING: (plain_string, _edge_string),
    Primitive.BINARY: (_quoted(plain_base64), _perhaps_escaped(edge_base64)),
    Primitive.DATE: (_quoted(plain_date), _perhaps_escaped(edge_date)),
}


def _decimal(dtype: Decimal) -> Forms:
    def plain(chance: Random) -> str:
        text = plain_decimal(chance, dtype)
        return text if chance.random() < 0.5 else f'"{text}"'

    def edge(chance: Random) -> str:
        text = edge_decimal(chance, dtype) if chance.random() < 0.9 else broken_number(chance)
        return text if chance.random() < 0.5 else f'"{text}"' if chance.random() < 0.9 else escaped(chance, text)

    return plain, edge


def _timestamp(dtype: Timestamp) -> Forms:
    edge_text = _perhaps_escaped(edge_timestamp)

    def plain(chance: Random) -> str:
        return f'"{plain_timestamp(chance)}"' if chance.random() < 0.5 else plain_epoch(chance, dtype)

    def edge(chance: Random) -> str:
        roll = chance.random()
        return edge_text(chance) if roll < 0.6 else edge_epoch(chance, dtype) if roll < 0.8 else edge_integer(chance)

    return plain, edge


_SCALARS: tuple[Write, ...] = (
    *(plain_string, edge_string, plain_float, edge_float, edge_integer, _bool),
    *(_quoted(plain_date), _quoted(plain_timestamp), _quoted(plain_base64), _quoted(edge_integer)),
)
