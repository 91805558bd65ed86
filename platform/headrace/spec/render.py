"""Writes the JSON schema of the pipeline file, for editors: `python -m headrace.spec.render [FILE]`.

Built from the models and from the fields of the installed connectors and formats. The schema helps to write a file;
only the loader decides validity. So the schema is lenient where the loader types text by its field: it accepts a number
for text, and `${VAR}` anywhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, assert_never

from pydantic import BaseModel

from headrace.connect import registry
from headrace.connect.registry import Connector
from headrace.core.config import duration_text
from headrace.core.ids import HIDDEN_PREFIX, NODE_NAME, PIPELINE_NAME
from headrace.spec.connectors import REGISTRY, USE, Side
from headrace.spec.fields import FORMAT_COMMENT
from headrace.spec.pipeline import PipelineFields, SinkFields, SourceFields, StepFields, TestCase
from headrace.spec.type_words import OWN_FORMATS
from headrace.spec.verbs.table import BESIDE, VERBS
from headrace.spec.verbs.verb import Form, Verb

TARGET = Path("schemas/pipeline.schema.json")
Schema = dict[str, Any]
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_DURATION = r"^0$|^(\d+\s*(ms|s|m|h|d|w)\s*)+$|\$\{"
_OWN_WORDS = (*OWN_FORMATS, "date-time")
"""Formats that the schema leaves out: they are headrace's own, or the loader accepts more than they do."""
_NODE_NAMES = {"pattern": "^" + NODE_NAME.pattern.replace(r"\Z", "$"), "not": {"pattern": HIDDEN_PREFIX}}


def pipeline_schema() -> Schema:
    """The schema of a pipeline file, as JSON data."""
    defs: Schema = {}
    top = _fields(PipelineFields, "pipeline", defs)
    top["name"]["pattern"] = "^" + PIPELINE_NAME.pattern.replace(r"\Z", "$")
    connectors = [registry.connector(name) for name in registry.connector_names()]
    defs["format"] = _format_schema(defs)
    defs["source"] = _with_connector(SourceFields, "source", connectors, defs)
    defs["step"] = _step_schema(defs)
    defs["sink"] = _with_connector(SinkFields, "sink", connectors, defs)
    properties = {
        **top,
        "connections": _connections_schema(connectors),
        "sources": _group("source", "where rows come from, by name"),
        "steps": _group("step", "what is done to them, by name"),
        "sinks": _group("sink", "where results go, by name"),
        "tests": {"type": "array", "items": _own(TestCase, "test", defs), "description": "cases of `headrace test`"},
    }
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Headrace pipeline",
        **_object(properties, ("name", "sources", "sinks")),
        "patternProperties": {"^x-": {"description": "ignored: a place for YAML anchors"}},
        "$defs": dict(sorted(defs.items())),
    }
    lenient = _lenient(schema)
    assert isinstance(lenient, dict), "a schema stays one"
    return lenient


def rendered() -> str:
    """The schema as the text of its file."""
    return json.dumps(pipeline_schema(), indent=2, ensure_ascii=False) + "\n"


def _object(properties: Mapping[str, Any], required: Iterable[str] = ()) -> Schema:
    data: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    if names := list(required):
        data["required"] = names
    return data


def _own(model: type[BaseModel], prefix: str, defs: Schema) -> Schema:
    """A model's schema, with the models inside of it moved to `defs` under a prefix."""
    schema = model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{prefix}.{{model}}")
    for name, inner in schema.pop("$defs", {}).items():
        defs[f"{prefix}.{name}"] = inner
    schema.pop("title", None)
    return schema


def _fields(model: type[BaseModel], prefix: str, defs: Schema) -> Schema:
    properties: Schema = _own(model, prefix, defs)["properties"]
    return properties


def _group(kind: str, description: str) -> Schema:
    nodes = {"type": "object", "propertyNames": _NODE_NAMES, "additionalProperties": {"$ref": f"#/$defs/{kind}"}}
    return {**nodes, "description": description}


def _with_connector(model: type[BaseModel], side: Side, connectors: Iterable[Connector], defs: Schema) -> Schema:
    own = _own(model, side, defs)
    properties = own["properties"]
    names = []
    for connector in connectors:
        config = connector.source if side == "source" else connector.sink
        if config is None:
            continue
        names.append(connector.name)
        name = f"{connector.name}.{side}"
        defs[name] = _connector_schema(_own(config, name, defs))
        properties[connector.name] = {"description": connector.summary, "$ref": f"#/$defs/{name}"}
    return {
        "description": own["description"],
        **_object(properties, own.get("required", ())),
        "oneOf": [{"required": [name]} for name in names],
    }


def _connector_schema(schema: Schema) -> Schema:
    """Requires the connector's fields or a connection, which may set them; without required fields the block may be
    empty."""
    required = schema.pop("required", [])
    schema["properties"] = {USE: {"type": "string", "description": "a name in connections:"}, **schema["properties"]}
    if required:
        schema["anyOf"] = [{"required": [USE]}, {"required": required}]
    else:
        schema["type"] = ["object", "null"]
    return schema


def _connections_schema(connectors: Iterable[Connector]) -> Schema:
    names = (*(connector.name for connector in connectors), REGISTRY)
    blocks = {name: {"type": "object", "description": f"fields of {name}"} for name in names}
    return {
        "type": "object",
        "description": "fields that several nodes or formats share: kafka: {use: <name>, ..}",
        "additionalProperties": _object(blocks),
    }


def _format_schema(defs: Schema) -> Schema:
    names = registry.format_names()
    options = {}
    for name in names:
        found = registry.format_named(name)
        defs[f"format.{name}"] = _own(found.config, f"format.{name}", defs)
        options[name] = {"description": found.summary, "$ref": f"#/$defs/format.{name}"}
    return {"anyOf": [{"enum": list(names)}, {**_object(options), "minProperties": 1, "maxProperties": 1}]}


def _step_schema(defs: Schema) -> Schema:
    own = _own(StepFields, "step", defs)
    properties = own["properties"]
    for name, verb in VERBS.items():
        properties.update(_verb_fields(name, verb, defs))
    return {
        "description": "reads one node (a union: several) and does one thing",
        **_object(properties),
        "oneOf": [{"required": [name]} for name in VERBS],
        "dependencies": {key: [verb.NAME] for key, verb in BESIDE.items()},
    }


def _verb_fields(name: str, verb: type[Verb], defs: Schema) -> Schema:
    match verb.FORM:
        case Form.STEP:
            return _fields(verb, "step", defs)
        case Form.BLOCK:
            return {name: _own(verb, "step", defs)}
        case Form.VALUE:
            (field,) = _fields(verb, "step", defs).values()
            return {name: field}
        case _:
            assert_never(verb.FORM)


def _lenient(data: object) -> object:
    """Accepts numbers for text, and variables everywhere; drops generated titles."""
    if isinstance(data, list):
        return [_lenient(item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.get("$comment") == FORMAT_COMMENT:
        return {"$ref": "#/$defs/format"}
    if data.get("format") == "duration":
        return _duration(data)
    result = {
        key: {name: _lenient(inner) for name, inner in value.items()}
        if key in ("properties", "$defs", "patternProperties") and isinstance(value, dict)
        else value
        if key in ("default", "examples")
        else _lenient(value)
        for key, value in data.items()
        if not (key == "title" and value != "Headrace pipeline") and not (key == "format" and value in _OWN_WORDS)
    }
    kind = data.get("type")
    if kind == "string" and "pattern" not in data:
        result["type"] = ["string", "number", "boolean"]
    elif kind in ("integer", "number", "boolean"):
        result["type"] = [kind, "string"]
    if "enum" in data or "const" in data:
        choice = {key: result.pop(key) for key in ("type", "enum", "const") if key in result}
        result["anyOf"] = [choice, dict(_VARIABLE)]
    return result


def _duration(data: Mapping[str, Any]) -> Schema:
    """Durations are texts such as 30s; JSON schema's own format `duration` differs."""
    kept = {key: data[key] for key in ("description", "examples", "default") if key in data}
    if isinstance(kept.get("default"), int):
        kept["default"] = duration_text(kept["default"])
    return {"type": ["string", "integer"], "pattern": _DURATION, **kept}


def write_rendered(arguments: list[str], target: Path, text: str) -> None:
    """Writes a generated file to the path in the arguments, else to `target`, its path in the repository."""
    chosen = Path(arguments[0]) if arguments else target
    chosen.parent.mkdir(parents=True, exist_ok=True)
    chosen.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{chosen}\n")


def main(arguments: list[str]) -> None:
    """Writes the schema to the file named, else to its path in the repository."""
    write_rendered(arguments, TARGET, rendered())


if __name__ == "__main__":
    main(sys.argv[1:])
