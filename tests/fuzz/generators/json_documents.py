"""Random JSON documents for a schema: clean ones as producers send them, and wild ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from random import Random

from fuzz.generators.damage import damaged
from fuzz.generators.json_strings import broken_string, edge_string, escaped, plain_string
from fuzz.generators.json_values import any_value, broken_value, deep_value, forms, wrong_value
from headrace.core.types import DataType, Field, ListOf, Schema, Struct

_TOKENS = (*'{}[]:,"\\', "null", "true", "false", "0", "-1", "1.5", '"a"', '"b":', '{"a":', " ", "\n", "\0")
_BLANKS = ("", "", "", " ", "\n", "\t", "\r", "\r\n", "  ", " \t\n\r", " " * 17)
_ITEMS_MANY = (40, 90, 300)
_UNKNOWN_VALUES = ('"text"', "12.75", "-3", "null", "true", '{"a":[1,{"b":"é"}]}', "[]", "{}", "[[1],[2,3]]", "1.5e-7")


@dataclass(frozen=True, slots=True)
class Mood:
    """How one document is written. Shares lie between 0 and 1.

    edge       of values at the edge of their type
    wrong      of values of another type, or that are none
    null       of NULLs and missing fields where they may be
    lost       of missing fields where they may not be
    disorder   of objects whose fields come in another order, or with unknown ones
    any        of unknown fields with any value, not a plain one
    mischief   of objects with a field twice, or a key that is escaped or broken
    comma, colon  with their blanks; None: other ones each time
    """

    edge: float = 0.0
    wrong: float = 0.0
    null: float = 0.1
    lost: float = 0.0
    disorder: float = 0.0
    any: float = 0.0
    mischief: float = 0.0
    comma: str | None = ","
    colon: str | None = ":"


_CLEAN = (Mood(), Mood(comma=", ", colon=": "), Mood(disorder=0.3), Mood(null=0.4), Mood(disorder=0.1, comma=",\n "))
_WILD = (
    *(Mood(edge=0.1), Mood(edge=0.3, disorder=0.2, any=0.1), Mood(edge=1.0, null=0.0), Mood(disorder=1.0, any=0.5)),
    *(Mood(wrong=0.05), Mood(wrong=0.05, edge=0.1), Mood(wrong=0.2, disorder=0.5), Mood(wrong=1.0)),
    Mood(disorder=1.0, any=1.0),
    *(Mood(lost=0.05, null=0.5), Mood(mischief=0.3), Mood(mischief=0.3, disorder=0.3, null=0.3)),
    *(Mood(comma=None, colon=None), Mood(comma=None, colon=None, edge=0.1, disorder=0.3, null=0.3, any=0.3)),
    Mood(comma=None, colon=None, edge=0.2, wrong=0.05, mischief=0.1),
)
_Write = Callable[[Random, Mood], str]


class Documents:
    """Writes messages for one schema."""

    def __init__(self, schema: Schema) -> None:
        self._write = _object_writer(schema.fields)

    def clean(self, chance: Random) -> bytes:
        """A message that fits the schema, in a form that the kernel is meant to be sure of."""
        return self._write(chance, chance.choice(_CLEAN)).encode()

    def wild(self, chance: Random) -> bytes:
        """A message that may be anything; half of them fit the schema."""
        roll = chance.random()
        if roll < 0.01:
            return _noise(chance)
        if roll < 0.02:
            return _encoded(wrong_value(chance))
        mood = chance.choice(_WILD)
        text = self._write(chance, mood)
        if mood.comma is None:
            text = f"{chance.choice(_BLANKS)}{text}{chance.choice(_BLANKS)}"
        data = _encoded(text)
        return damaged(chance, data) if roll < 0.2 else data


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _noise(chance: Random) -> bytes:
    if chance.random() < 0.3:
        return chance.randbytes(chance.randrange(40))
    return "".join(chance.choices(_TOKENS, k=chance.randrange(20))).encode()


def _writer(dtype: DataType) -> _Write:
    match dtype:
        case ListOf(inner, nullable):
            return _list_writer(Field("", inner, nullable))
        case Struct(fields):
            return _object_writer(fields)
        case _:
            pass
    plain, edge = forms(dtype)

    def write(chance: Random, mood: Mood) -> str:
        return edge(chance) if mood.edge and chance.random() < mood.edge else plain(chance)

    return write


def _value_writer(field: Field) -> _Write:
    """Writes a field's value, NULL, or a wrong one."""
    write, nullable = _writer(field.type), field.nullable

    def write_value(chance: Random, mood: Mood) -> str:
        roll = chance.random()
        if roll < mood.wrong:
            return wrong_value(chance)
        if nullable and roll > 1 - mood.null:
            return "null"
        return write(chance, mood)

    return write_value


def _list_writer(item: Field) -> _Write:
    write = _value_writer(item)
    write_short = _short_writer(item.type, write)

    def write_list(chance: Random, mood: Mood) -> str:
        items = [write(chance, mood) for _ in range(chance.randrange(4))]
        if write_short is not None and chance.random() < 0.01:
            items += [write_short(chance, mood) for _ in range(chance.choice(_ITEMS_MANY))]
        return _joined(chance, mood, "[]", items)

    return write_list


def _short_writer(dtype: DataType, write: _Write) -> _Write | None:
    """Writes elements short enough for a long list: nested ones are empty. None for a struct that cannot be."""
    match dtype:
        case ListOf():
            return lambda chance, mood: "[]"
        case Struct(fields):
            return (lambda chance, mood: "{}") if all(item.nullable for item in fields) else None
        case _:
            return write


def _object_writer(fields: Sequence[Field]) -> _Write:
    writers = [(item.name, _key(item.name), _value_writer(item), item.nullable) for item in fields]
    known = {item.name for item in fields}

    def write_object(chance: Random, mood: Mood) -> str:
        members = []
        for name, key, write, nullable in writers:
            absent = mood.null if nullable else mood.lost
            if absent and chance.random() < absent:
                continue
            members.append((name, key, write(chance, mood)))
        if mood.disorder and chance.random() < mood.disorder:
            members = _disordered(chance, mood, members, known)
        if mood.mischief and chance.random() < mood.mischief:
            members = _mischievous(chance, members)
        if mood.colon is None:
            return _joined(chance, mood, "{}", [f"{key}{_around(chance, ':')}{value}" for _, key, value in members])
        return _joined(chance, mood, "{}", [f"{key}{mood.colon}{value}" for _, key, value in members])

    return write_object


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


_Members = list[tuple[str, str, str]]
"""Name, key and value of each."""


def _disordered(chance: Random, mood: Mood, members: _Members, known: AbstractSet[str]) -> _Members:
    """The members in another order, with some between them whose names are not among the `known`."""
    members = list(members)
    roll = chance.random()
    if roll < 0.3:
        chance.shuffle(members)
    elif roll < 0.4:
        members.reverse()
    elif roll < 0.5 and members:
        at = chance.randrange(len(members))
        members = members[at:] + members[:at]
    for _ in range(chance.randrange(3)):
        name = _unknown_name(chance, members)
        if name not in known:
            value = _odd_value(chance) if chance.random() < mood.any else chance.choice(_UNKNOWN_VALUES)
            members.insert(chance.randrange(len(members) + 1), (name, _key(name), value))
    return members


def _odd_value(chance: Random) -> str:
    return any_value(chance) if chance.random() < 0.8 else broken_value(chance)


def _unknown_name(chance: Random, members: _Members) -> str:
    """Any, or almost that of a member."""
    if not members or chance.random() < 0.3:
        return chance.choice(("unknown", "x1", "", "名", "u" * 40))
    name = chance.choice(members)[0]
    near = (name + "x", name[:-1], f"x{name}", name.upper(), name + " ", f"{name}\x7f", name * 2, name[:-1] + "\u00ff")
    return chance.choice(near)


def _mischievous(chance: Random, members: _Members) -> _Members:
    """The members with one that is there twice, unknown with any value, or has an odd key."""
    members = list(members)
    name, key, value = chance.choice(members) if members else ("a", '"a"', "1")
    match chance.randrange(9):
        case 0:
            odd = name, key, value
        case 1:
            odd = name, key, any_value(chance)
        case 2:
            odd = name, escaped(chance, name), value
        case 3:
            odd = name, edge_string(chance), any_value(chance)
        case 4:
            odd = name, broken_string(chance), value
        case 5:
            odd = name, plain_string(chance), wrong_value(chance)
        case 6:
            odd = name, broken_value(chance), value
        case 7:
            # both hold where a reader's stack may end
            members.insert(chance.randrange(len(members) + 1), ("deep", '"deep"', deep_value(chance)))
            odd = name, key, any_value(chance)
        case _:
            # the same member, once, with its key in escapes
            members = [member for member in members if member[0] != name]
            odd = name, escaped(chance, name), value
    members.insert(chance.randrange(len(members) + 1), odd)
    return members


def _joined(chance: Random, mood: Mood, brackets: str, items: list[str]) -> str:
    if mood.comma is not None:
        return f"{brackets[0]}{mood.comma.join(items)}{brackets[1]}"
    text = items[0] if items else ""
    for item in items[1:]:
        text += _around(chance, ",") + item
    return f"{brackets[0]}{chance.choice(_BLANKS)}{text}{chance.choice(_BLANKS)}{brackets[1]}"


def _around(chance: Random, token: str) -> str:
    return f"{chance.choice(_BLANKS)}{token}{chance.choice(_BLANKS)}"
