"""Random Avro schemas as JSON, and readers' schemas that a writer's may have become.

In a union no two branches are read to the same kind of Python value, so that a library's value tells its branch.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = Any
_PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    *(("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis")),
    *(("long", "timestamp-micros"), ("long", "timestamp-nanos"), ("long", "local-timestamp-micros")),
    *(("string", "uuid"), ("bytes", "unheard-of")),
)
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NESTING_MAX = 4
_SYMBOLS = ("A", "BB", "a_symbol_of_some_length", "Z")
_DEFAULTS: dict[str, Json] = {
    "boolean": True,
    "int": -7,
    "long": 1 << 40,
    "float": 1,
    "double": 2,
    "bytes": "\u00ff\u0001 and more bytes",
    "string": "a default longer than most messages",
}


class Schemas:
    """Makes schemas; each named type has a name of its own."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._named = 0

    def record(self, depth: int = 0) -> Json:
        """A record of one to six fields, rarely of thirty."""
        count = 30 if self._chance.random() < 0.02 else self._chance.randint(1, 6)
        fields = [{"name": f"f{index}", "type": self.any(depth + 1)} for index in range(count)]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def any(self, depth: int) -> Json:
        """A type, at times a union."""
        roll = self._chance.random()
        if roll < 0.25:
            pair = ["null", self._single(depth)]
            return pair if self._chance.random() < 0.7 else pair[::-1]
        return self._union(depth) if roll < 0.35 else self._single(depth)

    def _single(self, depth: int) -> Json:
        roll = self._chance.randrange(20 if depth < _NESTING_MAX else 15)
        if roll < 8:
            return self._chance.choice(_PLAIN)
        if roll < 11:
            plain, name = self._chance.choice(_LOGICAL)
            return {"type": plain, "logicalType": name}
        if roll < 13:
            return self._decimal()
        if roll == 13:
            symbols = self._chance.sample(_SYMBOLS, self._chance.randint(1, len(_SYMBOLS)))
            return {"type": "enum", "name": self._name("E"), "symbols": symbols}
        if roll == 14:
            return self._fixed()
        if roll == 15:
            return {"type": "map", "values": self.any(depth + 1)}
        return self.record(depth) if roll < 18 else {"type": "array", "items": self.any(depth + 1)}

    def _decimal(self) -> Json:
        precision = self._chance.choice((1, 4, 18, 19, 30, 38, 38, 45))
        form = {"logicalType": "decimal", "precision": precision, "scale": self._chance.randint(0, min(precision, 10))}
        if self._chance.random() < 0.5:
            return {"type": "bytes", **form}
        return {"type": "fixed", "name": self._name("D"), "size": self._chance.choice((1, 8, 16, 20)), **form}

    def _fixed(self) -> Json:
        size, logical = self._chance.choice(((0, None), (3, None), (40, None), (16, "uuid"), (12, "duration")))
        # an item of no bytes is refused
        made = {"type": "fixed", "name": self._name("F"), "size": size or 1}
        return made if logical is None else {**made, "logicalType": logical}

    def _union(self, depth: int) -> Json:
        kinds: list[Callable[[], Json]] = [
            lambda: "null",
            lambda: self._chance.choice(("int", "long", "float", "double")),
            lambda: "boolean",
            lambda: self._chance.choice(("string", {"type": "enum", "name": self._name("E"), "symbols": ["A", "B"]})),
            lambda: self._chance.choice(("bytes", {"type": "fixed", "name": self._name("F"), "size": 2})),
        ]
        if depth < _NESTING_MAX:
            kinds.append(lambda: self.record(depth))
            kinds.append(lambda: {"type": "array", "items": self.any(depth + 2)})
        branches = [make() for make in self._chance.sample(kinds, self._chance.randint(2, 4))]
        # of the two, fastavro takes the first one for values of both; Java and we take that of the value
        return [branch for branch in branches if branch != "bytes" or "string" not in branches]

    def _name(self, letter: str) -> str:
        self._named += 1
        return f"{letter}{self._named}"

    def evolved(self, writer: Json, share: float) -> Json:
        """A reader's schema: that of the writer with changes, most of which Avro allows. share: of types that change"""
        if isinstance(writer, list):
            branches = [branch if isinstance(branch, str) else self.evolved(branch, share) for branch in writer]
            if self._chance.random() < share:
                self._chance.shuffle(branches)
            return branches
        changes = self._chance.random() < share
        if isinstance(writer, str):
            if changes and self._chance.random() < 0.3:
                return ["null", writer]
            return self._chance.choice(_PROMOTED.get(writer, (writer,))) if changes else writer
        match writer["type"]:
            case "record":
                return self._evolved_record(writer, share)
            case "array":
                return {**writer, "items": self.evolved(writer["items"], share)}
            case "map":
                return {**writer, "values": self.evolved(writer["values"], share)}
            case "enum" if changes:
                symbols = self._chance.sample(writer["symbols"], self._chance.randint(1, len(writer["symbols"])))
                default = {"default": symbols[0]} if self._chance.random() < 0.6 else {}
                return {**writer, "symbols": symbols, **default}
            case _:
                return writer

    def _evolved_record(self, writer: Json, share: float) -> Json:
        fields = []
        for item in writer["fields"]:
            if self._chance.random() < share / 3 and len(writer["fields"]) > 1:
                continue
            changed = {"name": item["name"], "type": self.evolved(item["type"], share)}
            if self._chance.random() < share / 3:
                changed |= {"name": f"{item['name']}_new", "aliases": [item["name"]]}
            fields.append(changed)
        if self._chance.random() < share or not fields:
            fields += [self._added(index) for index in range(self._chance.randint(1, 3))]
        if self._chance.random() < share:
            self._chance.shuffle(fields)
        return {**writer, "fields": fields}

    def _added(self, index: int) -> Json:
        name, roll = f"added{index}", self._chance.random()
        plain = self._chance.choice(_PLAIN)
        if roll < 0.05:
            return {"name": name, "type": plain}
        if roll < 0.4:
            return {"name": name, "type": ["null", plain], "default": None}
        if roll < 0.7:
            return {"name": name, "type": plain, "default": _DEFAULTS[plain]}
        if roll < 0.8:
            return {"name": name, "type": {"type": "array", "items": plain}, "default": [_DEFAULTS[plain]] * 2}
        if roll < 0.9:
            fixed = {"type": "fixed", "name": self._name("F"), "size": 2}
            return {"name": name, "type": fixed, "default": "\u00fe\u0002"}
        inner = [
            {"name": "x", "type": plain},
            {"name": "y", "type": ["null", "string"], "default": None},
            {"name": "z", "type": "double", "default": 3},
        ]
        record = {"type": "record", "name": self._name("R"), "fields": inner}
        return {"name": name, "type": record, "default": {"x": _DEFAULTS[plain]}}
