"""Fields that several nodes share: parallelism, partition, on_error, format; each with its file form."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, SerializeAsAny, WithJsonSchema

from headrace.connect import registry
from headrace.connect.format import FormatConfig
from headrace.core.config import FileModel
from headrace.core.errors import UserError, did_you_mean
from headrace.operators.operator import OnError
from headrace.spec.columns import ColumnList
from headrace.spec.findings import Finding, FindingsError, collecting, joined, wrong
from headrace.spec.wording import kind_of, read_model, unknown_key

MAX_PARALLELISM = 32_768
FORMAT_COMMENT = "an installed format"
"""Placeholder in a generated schema for the schema of the installed formats."""

Parallelism = Annotated[int, Field(ge=1, le=MAX_PARALLELISM)]


class DeadLetter(FileModel):
    """Rows that fail go to a Kafka topic, with their position and the reason in headers."""

    topic: Annotated[str, Field(min_length=1)] = Field(description="the Kafka topic of rows that fail")


ErrorRule = OnError | DeadLetter
"""The policy for a failing row."""


class Route(StrEnum):
    """How rows are spread over a node's subtasks."""

    FORWARD = "forward"
    REBALANCE = "rebalance"
    RESCALE = "rescale"
    BROADCAST = "broadcast"
    GLOBAL = "global"


class HashBy(FileModel):
    """Rows with equal values in these columns meet in one subtask."""

    columns: Annotated[ColumnList, Field(min_length=1)] = Field(
        validation_alias="hash", serialization_alias="hash", description="the columns that decide"
    )


Partition = Route | HashBy
"""How rows reach a node."""


class FormatUse(FileModel):
    """A format by name, and its options."""

    name: str
    config: SerializeAsAny[FormatConfig]

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from the format's defaults, in their file form."""
        return self.config.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def read_error_rule(data: object) -> ErrorRule:
    """`fail`, `skip`, `divert` or `{dead_letter: topic}`. Raises FindingsError."""
    if isinstance(data, OnError | DeadLetter):
        return data
    valid = [*OnError, "{dead_letter: <topic>}"]
    if isinstance(data, str):
        if data in list(OnError):
            return OnError(data)
        near = (
            "write it as {dead_letter: <topic>}"
            if data == "dead_letter"
            else did_you_mean(data, [item.value for item in OnError])
        )
        raise wrong(f"{data!r} is not valid for 'on_error'", joined(near, f"valid values: {', '.join(valid)}"))
    if isinstance(data, Mapping) and list(data) == ["dead_letter"]:
        findings: list[Finding] = []
        with collecting(findings):
            return read_model(DeadLetter, {"topic": data["dead_letter"]})
        raise FindingsError(
            [Finding(f.message.replace("'topic'", "'dead_letter'"), f.remedy, ("dead_letter",)) for f in findings]
        )
    if isinstance(data, Mapping) and len(data) == 1:
        raise FindingsError([unknown_key(str(next(iter(data))), ("dead_letter",))])
    raise wrong(f"{kind_of(data)} is not valid for 'on_error'", f"valid values: {', '.join(valid)}")


def error_rule_form(rule: ErrorRule) -> object:
    """The file form of an error rule."""
    return {"dead_letter": rule.topic} if isinstance(rule, DeadLetter) else rule.value


def read_partition(data: object) -> Partition:
    """`forward`, .. or `{hash: [cols]}`. Raises FindingsError."""
    if isinstance(data, Route | HashBy):
        return data
    if isinstance(data, Mapping):
        return read_model(HashBy, data)
    if isinstance(data, str) and data in list(Route):
        return Route(data)
    near = did_you_mean(data, [item.value for item in Route]) if isinstance(data, str) else None
    valid = f"valid values: {', '.join(Route)}, {{hash: [columns]}}"
    raise wrong(f"{kind_of(data)} is not valid for 'partition'", joined(near, valid))


def partition_form(partition: Partition) -> object:
    """The file form of a partition."""
    return {"hash": list(partition.columns)} if isinstance(partition, HashBy) else partition.value


def read_format(data: object) -> FormatUse:
    """A format's name, or `{name: {options}}`. Raises FindingsError."""
    if isinstance(data, FormatUse):
        return data
    if isinstance(data, str):
        return FormatUse(name=data, config=_format_config(data, {}, named_by_key=False))
    if not isinstance(data, Mapping) or len(data) != 1:
        raise wrong(
            f"takes a format's name or {{name: {{options}}}}, not {kind_of(data)}",
            'such as json, or {csv: {delimiter: ";"}}',
        )
    if data.get("type") in registry.format_names():
        raise wrong("a format is named by a key, not by 'type'", f"write `format: {data['type']}`", "type", on_key=True)
    (name, options), *_ = data.items()
    findings: list[Finding] = []
    with collecting(findings, str(name)):
        return FormatUse(
            name=str(name), config=_format_config(str(name), {} if options is None else options, named_by_key=True)
        )
    raise FindingsError(findings)


def _format_config(name: str, options: object, *, named_by_key: bool) -> FormatConfig:
    try:
        model = registry.format_named(name).config
    except UserError as error:
        raise wrong(error.message, error.remedy, on_key=named_by_key) from error
    return read_model(model, options)


def format_form(use: FormatUse) -> object:
    """The file form of a format."""
    return {use.name: use.options} if use.options else use.name


_ERROR_SCHEMA = {
    "anyOf": [
        {"enum": [*OnError]},
        {
            "type": "object",
            "properties": {"dead_letter": {"type": "string", "description": "a Kafka topic"}},
            "required": ["dead_letter"],
            "additionalProperties": False,
        },
    ]
}
_PARTITION_SCHEMA = {
    "anyOf": [
        {"enum": [*Route]},
        {
            "type": "object",
            "properties": {"hash": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
            "required": ["hash"],
            "additionalProperties": False,
        },
    ]
}

ErrorRuleField = Annotated[
    ErrorRule,
    BeforeValidator(read_error_rule),
    PlainSerializer(error_rule_form),
    WithJsonSchema(_ERROR_SCHEMA),
]
PartitionField = Annotated[
    Partition,
    BeforeValidator(read_partition),
    PlainSerializer(partition_form),
    WithJsonSchema(_PARTITION_SCHEMA),
]
FormatField = Annotated[
    FormatUse,
    BeforeValidator(read_format),
    PlainSerializer(format_form),
    WithJsonSchema({"$comment": FORMAT_COMMENT}),
]
