"""The documented fields of a config model: name, type, default, description, as in a pipeline file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from headrace.core.config import duration_text
from headrace.spec.reading.wording import file_key, is_secret


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field; `default` is a JSON value in its file form, None also without a default."""

    name: str
    type: str
    required: bool
    default: Any
    secret: bool
    description: str

    @property
    def default_text(self) -> str:
        """The default for a table; empty without a default."""
        if self.default is None or (isinstance(self.default, dict) and not any(self.default.values())):
            return ""
        return self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)


def config_fields(model: type[BaseModel]) -> tuple[ConfigField, ...]:
    """The fields that a pipeline file may set, in the model's order."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    known = schema.get("$defs", {})
    made = []
    for name, info in model.model_fields.items():
        key = file_key(name, info)
        shown = schema["properties"].get(key, {})
        made.append(
            ConfigField(
                name=key,
                type=_type_text(shown, known),
                required=info.is_required(),
                default=_default(shown),
                secret=is_secret(info.json_schema_extra),
                description=info.description or "",
            )
        )
    return tuple(made)


def _default(shown: dict[str, Any]) -> Any:
    default = shown.get("default")
    # pydantic reports the model's default, which is in milliseconds
    return duration_text(default) if shown.get("format") == "duration" and isinstance(default, int) else default


def _type_text(schema: dict[str, Any], known: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _type_text(known.get(schema["$ref"].rsplit("/", 1)[-1], {}), known)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            options = dict.fromkeys(_type_text(option, known) for option in schema[word])
            return " | ".join(option for option in options if option != "null")
    if "allOf" in schema:
        return _type_text(schema["allOf"][0], known)
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if schema.get("format") == "duration":
        return "duration"
    return _plain_text(schema, known)


def _plain_text(schema: dict[str, Any], known: dict[str, Any]) -> str:
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
            return f"[{_type_text(items, known)}]" if isinstance(items, dict) else "list"
        case "object" if "properties" in schema:
            return "{" + ", ".join(schema["properties"]) + "}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"{{name: {_type_text(inner, known)}}}" if isinstance(inner, dict) else "mapping"
        case _:
            return "any"
