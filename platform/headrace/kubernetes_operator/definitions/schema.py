"""Structural schemas of Kubernetes (OpenAPI v3) from pydantic models. Pure.

A structural schema names the type of each field, has no references, and says nothing of unknown fields: the API server
removes them, and kubectl refuses them. Defaults are left out: they are the operator's, and the stored object stays what
the user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
_KEPT = (
    "type",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "required",
    "allOf",
    "oneOf",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
)
_DURATION = r"^0$|^(\d+\s*(ms|s|m|h|d|w)\s*)+$"
_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def structural_schema(model: type[BaseModel]) -> Schema:
    """The schema of a model's file form."""
    whole = model.model_json_schema(by_alias=True)
    return _structural(whole, whole.get("$defs", {}))


def _structural(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, defs)
    if schema.get("format") == "duration":
        return _described(schema, {"type": "string", "pattern": _DURATION})
    if schema.get(_PRESERVED) and "properties" not in schema:
        return _described(schema, {_PRESERVED: True})
    kept = _described(schema, {key: deepcopy(schema[key]) for key in _KEPT if key in schema})
    if "const" in schema:
        kept |= {"type": "string", "enum": [schema["const"]]}
    if "properties" in schema:
        kept["properties"] = {name: _structural(each, defs) for name, each in schema["properties"].items()}
    elif schema.get("type") == "object":
        kept |= _free_object(schema, defs)
    if "items" in schema:
        kept["items"] = _structural(schema["items"], defs)
    return kept


def _free_object(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """An object whose names are the user's."""
    values = schema.get("additionalProperties", True)
    if isinstance(values, Mapping):
        return {"additionalProperties": _structural(values, defs)}
    return {_PRESERVED: True}


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows references, and takes the one choice that is not null: an optional field may be left out."""
    while True:
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(choices) == 1:
            schema = {**choices[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
        elif "$ref" in schema:
            target = defs[str(schema["$ref"]).rpartition("/")[2]]
            # what the field says of itself goes before what its model says
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        else:
            return schema


def _described(schema: Mapping[str, Any], kept: Schema) -> Schema:
    # the first paragraph: what follows in a docstring describes fields by their names in Python
    first = str(schema.get("description", "")).partition("\n\n")[0]
    return kept | ({"description": " ".join(first.split())} if first else {})
