"""The documented fields of a config model: name, type, default, description, as in a pipeline file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headrace.core.config import duration_text
from headrace.spec.type_words import is_keyed, limits_of, referred_models, type_words, words_of
from headrace.spec.wording import file_key, is_secret, models_in


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One field; `default` is a JSON value in its file form, None also without a default.

    words    the words that it takes; empty: any value of its type
    limits   the range of a number or duration, as text; empty without one
    fields   the fields of its value, if that is a mapping with fields of its own
    keyed    its value is a mapping of names that the user chooses; `fields` are those of each value in it
    """

    name: str
    type: str
    required: bool
    default: Any
    secret: bool
    description: str
    words: tuple[str, ...] = ()
    limits: str = ""
    fields: tuple[ConfigField, ...] = ()
    keyed: bool = False

    @property
    def default_text(self) -> str:
        """The default for a table; empty without a default."""
        if self.default is None or (isinstance(self.default, dict) and not any(self.default.values())):
            return ""
        return self.default if isinstance(self.default, str) else json.dumps(self.default, ensure_ascii=False)

    @property
    def inner(self) -> tuple[tuple[str, ConfigField], ...]:
        """Every field below this one with its path, such as `metadata.topic`; `NAME` is a key that the user chooses."""
        prefix = f"{self.name}.NAME" if self.keyed else self.name
        paths: list[tuple[str, ConfigField]] = []
        for field in self.fields:
            paths.append((f"{prefix}.{field.name}", field))
            paths.extend((f"{prefix}.{path}", below) for path, below in field.inner)
        return tuple(paths)


def config_fields(model: type[BaseModel]) -> tuple[ConfigField, ...]:
    """The fields that a pipeline file may set, in the model's order."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    known = schema.get("$defs", {})
    return tuple(_field(name, info, schema["properties"], known) for name, info in model.model_fields.items())


def _field(
    name: str, info: FieldInfo, properties: Mapping[str, dict[str, Any]], known: Mapping[str, dict[str, Any]]
) -> ConfigField:
    key = file_key(name, info)
    shown = properties.get(key, {})
    # a model with a file form of its own, such as a window, has no reference in the schema
    models = [model for model in models_in(info.annotation) if model.__name__ in referred_models(shown)]
    return ConfigField(
        name=key,
        type=type_words(shown, known),
        required=info.is_required(),
        default=_default(shown),
        secret=is_secret(info.json_schema_extra),
        description=info.description or "",
        words=words_of(shown, known),
        limits=limits_of(shown, known),
        fields=tuple(field for model in models for field in config_fields(model)),
        keyed=is_keyed(shown, known),
    )


def _default(shown: dict[str, Any]) -> Any:
    default = shown.get("default")
    # pydantic reports the model's default, which is in milliseconds
    return duration_text(default) if shown.get("format") == "duration" and isinstance(default, int) else default
