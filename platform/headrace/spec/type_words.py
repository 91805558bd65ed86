"""A field's JSON schema in the words of a pipeline file's user: its type, the words it takes, its limits.

Knows JSON schema as pydantic writes it, and nothing of any model's meaning. A nested schema may name its values: the
`title` of `items`, of `additionalProperties` and of `propertyNames` is used instead of a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.core.config import duration_text

Schema = Mapping[str, Any]

OWN_FORMATS = ("duration", "expression", "column")
"""Values of `format` that are headrace's own: the name of a kind of text."""


def type_words(schema: Schema, known: Mapping[str, Schema]) -> str:
    """The type in users' words, such as `duration`, `[text]` or `append | upsert`; `known` has the schema's `$defs`."""
    if "$ref" in schema:
        return type_words(_referred(schema, known), known)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            options = dict.fromkeys(type_words(option, known) for option in schema[word])
            return " | ".join(option for option in options if option != "null")
    if "allOf" in schema:
        return type_words(schema["allOf"][0], known)
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if schema.get("format") in OWN_FORMATS:
        return str(schema["format"])
    if "$comment" in schema:
        return "format"  # FORMAT_COMMENT: stands for the schemas of the installed formats
    return _plain_words(schema, known)


def words_of(schema: Schema, known: Mapping[str, Schema]) -> tuple[str, ...]:
    """The words that the field takes, in the model's order; empty if it takes any value of its type."""
    found: dict[str, None] = {}
    for branch in _branches(schema, known):
        values = branch.get("enum", [branch["const"]] if "const" in branch else ())
        found |= dict.fromkeys(str(value) for value in values if value is not None)
    return tuple(found)


def limits_of(schema: Schema, known: Mapping[str, Schema]) -> str:
    """The range of a number or duration, such as `1 to 10000` or `more than 0s`; empty without one."""
    for branch in _branches(schema, known):
        shown = duration_text if branch.get("format") == "duration" else _number
        low, above = branch.get("minimum"), branch.get("exclusiveMinimum")
        high = branch.get("maximum")
        if low is not None and high is not None:
            return f"{shown(low)} to {shown(high)}"
        if low is not None:
            return f"{shown(low)} or more"
        if above is not None:
            return f"more than {shown(above)}"
    return ""


def referred_models(schema: Schema) -> frozenset[str]:
    """Names of the models that the schema refers to, at any depth outside of their own schemas."""
    found: set[str] = set()
    for key, value in schema.items():
        if key == "$ref":
            found.add(_name(value))
        else:
            inner = value if isinstance(value, list) else [value]
            found.update(*(referred_models(item) for item in inner if isinstance(item, Mapping)))
    return frozenset(found)


def is_keyed(schema: Schema, known: Mapping[str, Schema]) -> bool:
    """Whether the value is a mapping whose keys the user chooses."""
    return any("additionalProperties" in branch and "properties" not in branch for branch in _branches(schema, known))


def _branches(schema: Schema, known: Mapping[str, Schema]) -> Iterator[Schema]:
    if "$ref" in schema:
        yield from _branches(_referred(schema, known), known)
        return
    options = [option for word in ("anyOf", "oneOf", "allOf") for option in schema.get(word, ())]
    for option in options:
        yield from _branches(option, known)
    if not options:
        yield schema


def _referred(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    return known.get(_name(schema["$ref"]), {})


def _name(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _plain_words(schema: Schema, known: Mapping[str, Schema]) -> str:
    match schema.get("type"):
        case "string":
            return "time" if schema.get("format") == "date-time" else "text"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "null"
        case "array":
            items = schema.get("items")
            return f"[{_inner_words(items, known)}]" if isinstance(items, Mapping) else "list"
        case "object" if "properties" in schema:
            return "{" + ", ".join(schema["properties"]) + "}"
        case "object":
            return _mapping_words(schema, known)
        case _:
            return "any"


def _mapping_words(schema: Schema, known: Mapping[str, Schema]) -> str:
    inner = schema.get("additionalProperties")
    if not isinstance(inner, Mapping):
        return "mapping"
    key = schema.get("propertyNames", {}).get("title", "name")
    return f"{{{key}: {_inner_words(inner, known)}}}"


def _inner_words(schema: Schema, known: Mapping[str, Schema]) -> str:
    return str(schema["title"]) if "title" in schema and "$ref" not in schema else type_words(schema, known)
