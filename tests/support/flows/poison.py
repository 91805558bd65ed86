"""Hostile rows among good ones, by a seed: times, numbers, text, nesting, sizes and keys that a row may hold.

Each message has a number of its own in field `n`: good ones 1, 2, .., hostile ones -1, -2, ... Event times (`at`) are
good, or no time that a row may have, so that a hostile row moves no watermark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import pyarrow as pa

from headrace.core.time_range import MAX_US, MIN_US, YEAR_1_DAY, YEAR_9999_DAY
from headrace.core.types import DataType, ListOf, Primitive, Schema, Struct, Timestamp, schema_of
from headrace.core.types import Decimal as DecimalType
from headrace.formats.doubtful_rows import staged_frame
from support.oracles.json_messages import BadMessageError, oracle

FLAT = {
    "n": "int64 not null",
    "k": "string",
    "at": "timestamp not null",
    "t": "timestamp",
    "d": "date",
    "x": "float64",
    "i": "int64",
    "p": "decimal(12,2)",
    "s": "string",
}
NESTED = FLAT | {"l": "[timestamp]", "o": "{u: timestamp(us), z: int32}"}
HOSTILE_SHARE = 0.5
_BEGIN_MS, _STEP_MS = 1_700_000_000_000, 1_000
_NO_TIMES = (
    *("1700000000000000", "9100000000000000", "-9100000000000000", "9223372036854775807", "-9223372036854775809"),
    *('"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-00:01"', '"0000-06-01T00:00:00Z"', '"soon"', "1e300"),
    *("1.5", "true", "null", '"2024-02-30T00:00:00Z"', '"2024-01-01T24:00:00Z"', "-62135596800001", "253402300800000"),
)
_TIMES = (
    *("0", "-1", "253402300799999", "-62135596800000", '"9999-12-31T23:59:59.999999Z"', '"0001-01-01T00:00:00Z"'),
    *('"1969-12-31T23:59:59.999999999Z"', '"2016-12-31T23:59:59+00:00"', "1e12", "null"),
)
_DATES = ('"0001-01-01"', '"9999-12-31"', '"0000-12-31"', '"2023-02-29"', '"10000-01-01"', "5", "null", '"1970-01-01"')
_NUMBERS = (
    *("0", "-0", "-0.0", "1e400", "-1e400", "9223372036854775807", "-9223372036854775808"),
    *("9223372036854775808", "1e308", "5e-324", "0.1", "1e3"),
    *("1.5", "NaN", "null", "01", "1e99999999999999999999"),
    *("2147483648", "-2147483649", "1e-99999999999999999999", "12345678901.25"),
    *("7" * 400, "9" * 5_000, '"1"', "[1]", "9999999999.99", "253402300800"),
)
_TEXTS = (
    *(
        '""',
        '"cut \\ud83d"',
        '"\\udc00"',
        '"\\u0000"',
        f'"{"x" * 60_000}"',
        '"é😀\\ud83d\\ude00"',
        '"a\\nb"',
        "null",
        "5",
    ),
    *('"2024-02-30 00:00:00,5"', '"0000-01-01 00:00:00,5"', '"9999-12-31 23:59:59,999999"', '"2024-01-01 00:00:00,5"'),
    *('"NaN"', '"1e400"', '" 12 "', '"-9223372036854775809"', '"9223372036854775807"', '"raise"', '"exit"'),
    '"{\\"a\\":"',
)
_LISTS = (
    *("[]", "[null]", "[1700000000000000]", "[0,1,9100000000000000]", "[[1]]", "{}", "null"),
    *(f"[{','.join(['1'] * 900)}]", '["9999-12-31T23:59:59-00:01"]'),
)
_OBJECTS = (
    *("{}", "null", "[]", '{"u":1700000000000000000}', '{"u":-62135596800000001}', '{"z":2147483648}'),
    *('{"z":null,"y":1e400}', '{"u":0,"u":1700000000000000000}', '{"z":1,"\\ud83d":"\\ud83d"}'),
    f'{{"y":{"[" * 600}{"]" * 600}}}',
)
_HOSTILE: Mapping[str, Sequence[str]] = {
    "k": _TEXTS,
    "at": _NO_TIMES,
    "t": _NO_TIMES + _TIMES,
    "d": _DATES,
    "x": _NUMBERS,
    "i": _NUMBERS,
    "p": _NUMBERS,
    "s": _TEXTS,
    "l": _LISTS,
    "o": _OBJECTS,
}
_UNKNOWN = (
    '"\\ud83d"',
    "1e400",
    "8" * 400,
    "[" * 600 + "]" * 600,
    "[" * 1_100 + "]" * 1_100,
    f'"{"y" * 200_000}"',
    '{"n":1}',
)


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Messages in order, good and hostile ones; each differs from all others. numbers: field `n` of each."""

    schema: Schema
    messages: Sequence[bytes]
    numbers: Sequence[int]

    def number(self, message: bytes) -> int:
        """The number of a message; below 0 for a hostile one."""
        return self.numbers[self.messages.index(message)]

    def message(self, number: int) -> bytes:
        """The message of a number."""
        return self.messages[self.numbers.index(number)]

    def is_hostile(self, message: bytes) -> bool:
        """Whether it has a hostile value."""
        return self.number(message) < 0

    def is_bad(self, message: bytes) -> bool:
        """Whether a source of JSON must refuse it: it is no row, or has a time outside of the years 1 to 9999."""
        try:
            row = oracle(message, self.schema)
        except BadMessageError:
            return True
        return any(_is_no_time(row[field.name], field.type) for field in self.schema)


def poisoned_json(seed: int, count: int) -> Poisoned:
    """JSON messages of `NESTED`."""
    chance = Random(seed)
    messages, numbers = [], []
    for place in range(count):
        fields = _good(place)
        if chance.random() < HOSTILE_SHARE:
            numbers.append(-place - 1)
            fields["n"] = str(numbers[-1])
            for name in _names(chance, NESTED):
                fields[name] = chance.choice(_HOSTILE[name])
            messages.append(_odd_message(chance, fields))
        else:
            numbers.append(place + 1)
            messages.append(_joined(list(fields.items())))
    return Poisoned(schema_of(NESTED), messages, numbers)


def poisoned_csv(seed: int, count: int) -> Poisoned:
    """CSV messages of `FLAT`, without quotes: a quote that is not closed may cost rows behind it."""
    chance = Random(seed)
    messages, numbers = [], []
    for place in range(count):
        fields = {name: _csv_text(text) or "" for name, text in _good(place).items() if name in FLAT}
        if chance.random() < HOSTILE_SHARE:
            numbers.append(-place - 1)
            fields["n"] = str(numbers[-1])
            for name in _names(chance, FLAT):
                texts = [text for item in _HOSTILE[name] if (text := _csv_text(item)) is not None]
                fields[name] = chance.choice(texts)
        else:
            numbers.append(place + 1)
        messages.append(",".join(fields.values()).encode())
    return Poisoned(schema_of(FLAT), messages, numbers)


def poisoned_rows(poisoned: Poisoned, seed: int) -> tuple[pa.Table, frozenset[int]]:
    """The messages that are rows, as columns of a Parquet file, and the numbers of those that are bad there.

    Some of the hostile ones lack their event time, or have a text that is not UTF-8.
    """
    chance = Random(seed)
    rows = [row for message in poisoned.messages if (row := _row(message, poisoned.schema)) is not None]
    hostile = [row for row in rows if int(str(row["n"])) < 0]
    timeless, unreadable = (chance.sample(hostile, len(hostile) // 8) for _ in range(2))
    bad = {int(str(row["n"])) for row in (*timeless, *unreadable)}
    bad |= {
        int(str(row["n"])) for row in rows if any(_is_no_time(row[each.name], each.type) for each in poisoned.schema)
    }
    for row in timeless:
        row["at"] = None
    # as the decoder stages them: decimals with their scale
    staged = [[_staged(row[field.name], field.type) for field in poisoned.schema] for row in rows]
    table = staged_frame(poisoned.schema, staged).to_arrow()
    texts = [b"\xff" if row in unreadable else text for row, text in zip(rows, _texts(table), strict=True)]
    place = table.schema.get_field_index("s")
    return table.set_column(place, "s", _as_text(pa.array(texts, pa.large_binary()))), frozenset(bad)


def _row(message: bytes, schema: Schema) -> dict[str, object] | None:
    try:
        return oracle(message, schema)
    except BadMessageError:
        return None


def _staged(value: object, dtype: DataType) -> object:
    return Decimal(value).scaleb(-dtype.scale) if isinstance(dtype, DecimalType) and isinstance(value, int) else value


def _texts(table: pa.Table) -> list[bytes | None]:
    texts: list[bytes | None] = table["s"].cast(pa.large_binary()).to_pylist()
    return texts


def _as_text(values: pa.Array) -> pa.Array:
    """Bytes as texts, unchecked."""
    return pa.Array.from_buffers(pa.large_string(), len(values), values.buffers())


def _good(place: int) -> dict[str, str]:
    at = _BEGIN_MS + place * _STEP_MS
    return {
        "n": str(place + 1),
        "k": f'"k{place % 5}"',
        "at": str(at),
        "t": str(at - 86_400_000 * (place % 400)),
        "d": f'"20{place % 90 + 10}-0{place % 9 + 1}-1{place % 10}"',
        "x": f"{place % 1_000}.25",
        "i": str(place % 9 + 1),
        "p": f"{place % 100}.50",
        "s": f'"{place}"',
        "l": f"[{at},null]",
        "o": f'{{"u":{at}000,"z":{place}}}',
    }


def _names(chance: Random, schema: Mapping[str, str]) -> list[str]:
    """One to three columns that are to be hostile; more often those that only steps can refuse."""
    names = [name for name in _HOSTILE if name in schema]
    return list(dict.fromkeys(chance.choices([*names, *"ksssx"], k=chance.choice((1, 1, 2, 3)))))


def _odd_message(chance: Random, fields: dict[str, str]) -> bytes:
    members = list(fields.items())
    match chance.randrange(12):
        case 0:
            chance.shuffle(members)
        case 1 | 2:
            members.insert(chance.randrange(len(members)), ("unknown", chance.choice(_UNKNOWN)))
        case 3:
            members.append((chance.choice(list(fields)), chance.choice(_UNKNOWN)))
        case 4:
            del members[chance.randrange(len(members))]
        case 5:
            message = _joined(members)
            return message[: chance.randrange(1, len(message))]
        case 6:
            message = _joined(members)
            at = chance.randrange(1, len(message))
            return message[:at] + chance.choice((b"\xff", b"\xed\xa0\xbd", b"\0", b",", b"\\", b'"')) + message[at:]
        case _:
            pass
    return _joined(members)


def _joined(members: Sequence[tuple[str, str]]) -> bytes:
    return "{{{}}}".format(",".join(f'"{name}":{value}' for name, value in members)).encode()


def _csv_text(fragment: str) -> str | None:
    """A JSON value as a field of CSV without quotes; None where it cannot be one."""
    text = fragment
    if fragment.startswith('"'):
        text = json.loads(fragment)
    elif fragment[0] in "[{":
        return None
    elif fragment == "null":
        text = ""
    plain = text.isprintable() and not any(mark in text for mark in '",')
    return text if plain and not any("\ud800" <= mark <= "\udfff" for mark in text) else None


def _is_no_time(value: object, dtype: DataType) -> bool:
    match dtype:
        case Timestamp() | Primitive.DATE:
            low, high = (YEAR_1_DAY, YEAR_9999_DAY) if dtype is Primitive.DATE else (MIN_US, MAX_US)
            return isinstance(value, int) and not low <= value <= high
        case ListOf(inner):
            return isinstance(value, list) and any(_is_no_time(item, inner) for item in value)
        case Struct(fields):
            return isinstance(value, dict) and any(_is_no_time(value[field.name], field.type) for field in fields)
        case _:
            return False
