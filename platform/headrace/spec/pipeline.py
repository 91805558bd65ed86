"""The pipeline as a frozen model: sources, steps, sinks, settings, test cases.

    pipeline.to_dict()  the canonical file form, without defaults; `reading.read` returns an equal Pipeline for it
    pipeline.shown()    the same with secrets masked, for explain and logs

A node's name is its key. The plan checks columns and types of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SerializeAsAny, model_validator

from headrace.connect.sink import SinkConfig
from headrace.connect.source import SourceConfig
from headrace.core.config import Config, Duration, FileModel
from headrace.core.ids import PIPELINE_NAME
from headrace.core.types import Schema
from headrace.operators.operator import OnError
from headrace.spec.columns import Columns, schema_dict
from headrace.spec.expressions import Expression
from headrace.spec.fields import (
    MAX_PARALLELISM,
    ErrorRuleField,
    FormatField,
    FormatUse,
    Parallelism,
    PartitionField,
    error_rule_form,
    format_form,
    partition_form,
)
from headrace.spec.findings import wrong
from headrace.spec.masking import masked_config
from headrace.spec.settings import Batch, Checkpoint, ExponentialDelay, RestartField, State, restart_dict
from headrace.spec.travelling_files import files_form
from headrace.spec.verbs.verb import Verb

HIDDEN_KEY = "x-hidden"
"""The hidden texts in the file form. Only headrace writes them: those of a file are ignored, like all keys with x-."""
FILES_KEY = "x-files"
"""The files that formats name, in the file form; likewise."""
NotNegative = Annotated[Duration, Field(ge=0)]
Row = dict[str, Any]
"""A row of a test case as written: column name to text (or Python value), list, mapping or None."""


class EventTime(FileModel):
    """Where a source's event time comes from, and how much disorder it has. Neither column nor value: the record's."""

    column: str | None = Field(default=None, description="the column that holds the event time")
    value: Expression | None = Field(default=None, description="an SQL expression over the source's columns")
    out_of_orderness_ms: NotNegative = Field(
        default=0,
        validation_alias="out_of_orderness",
        serialization_alias="out_of_orderness",
        description="how far behind the newest row of its partition a row may be and still be on time",
    )
    idle_after_ms: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        validation_alias="idle_after",
        serialization_alias="idle_after",
        description="a partition at its end without rows for this long no longer holds time back",
    )
    max_drift_ms: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        validation_alias="max_drift",
        serialization_alias="max_drift",
        description="partitions that run further ahead of the slowest are paused",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_name(cls, data: object) -> object:
        if isinstance(data, str) and data:
            raise wrong(f"takes a mapping, not {data!r}", f"write {{column: {data}}}")
        return data

    def model_post_init(self, context: object, /) -> None:
        """Rejects two origins of time."""
        if self.column is not None and self.value is not None:
            raise wrong("takes column or value, not both", "keep one of them")


class SourceFields(FileModel):
    """The fields of a source, except its connector."""

    format: FormatField | None = Field(default=None, description="how messages are decoded: a name, or {name: options}")
    columns: Columns = Field(
        validation_alias="schema", serialization_alias="schema", description="the columns, name to type"
    )
    key_format: FormatField | None = Field(
        default=None, description="how the keys of records are decoded: a name, or {name: options}"
    )
    key_schema: Columns | None = Field(
        default=None, description="the columns of the key, name to type; they come after those of the value"
    )
    time: EventTime = Field(default_factory=EventTime, description="event time and its disorder")
    on_error: ErrorRuleField = Field(default=OnError.FAIL, description="what happens to a message that fails to decode")
    parallelism: Parallelism | None = Field(default=None, description="default: the pipeline's")


class SourceNode(SourceFields):
    """A source: a connector, the columns it gives, and their time."""

    connector: str
    config: SerializeAsAny[SourceConfig]

    @property
    def decoded(self) -> Schema:
        """The columns of the value, then those of the key."""
        return Schema((*self.columns, *(self.key_schema or ())))

    def to_dict(self) -> dict[str, Any]:
        """The file form, without defaults."""
        data: dict[str, Any] = {self.connector: config_dict(self.config)}
        if self.format is not None:
            data["format"] = format_form(self.format)
        data["schema"] = schema_dict(self.columns)
        if self.key_format is not None:
            data["key_format"] = format_form(self.key_format)
        if self.key_schema is not None:
            data["key_schema"] = schema_dict(self.key_schema)
        if time := config_dict(self.time):
            data["time"] = time
        if self.on_error is not OnError.FAIL:
            data["on_error"] = error_rule_form(self.on_error)
        if self.parallelism is not None:
            data["parallelism"] = self.parallelism
        return data


class StepFields(FileModel):
    """The fields of a step, except its verb."""

    from_: str | None = Field(
        default=None,
        validation_alias="from",
        serialization_alias="from",
        description="the node that rows come from, or one of its side outputs: name.late, name.bad",
    )
    on_error: ErrorRuleField = Field(default=OnError.FAIL, description="what happens to a row that fails in this step")
    parallelism: Parallelism | None = Field(default=None, description="default: the pipeline's")
    partition: PartitionField | None = Field(default=None, description="how rows are spread over the subtasks")


class StepNode(StepFields):
    """A step: what it reads and the one thing that it does. `from_` is None if the verb names its inputs."""

    verb: SerializeAsAny[Verb]

    @property
    def verb_name(self) -> str:
        """The verb's key in the file."""
        return self.verb.NAME

    @property
    def inputs(self) -> tuple[str, ...]:
        """The nodes (or side outputs) that the step reads."""
        if self.verb.NAMES_INPUTS:
            return self.verb.named_inputs
        assert self.from_ is not None, "a step that names no inputs has a from"
        return (self.from_,)

    def to_dict(self) -> dict[str, Any]:
        """The file form, without defaults."""
        data: dict[str, Any] = {} if self.from_ is None else {"from": self.from_}
        data |= self.verb.file_form()
        if self.on_error is not OnError.FAIL:
            data["on_error"] = error_rule_form(self.on_error)
        return data | _placement(self.parallelism, self.partition)


class SinkFields(FileModel):
    """The fields of a sink, except its connector."""

    from_: str = Field(
        validation_alias="from",
        serialization_alias="from",
        description="the node that rows come from, or one of its side outputs: name.late, name.bad",
    )
    format: FormatField | None = Field(default=None, description="how rows are encoded: a name, or {name: options}")
    key_format: FormatField | None = Field(
        default=None,
        description="how the key columns are encoded: a name, or {name: options}; default: the bytes of one text or "
        "binary column, else a JSON object",
    )
    on_error: ErrorRuleField = Field(
        default=OnError.FAIL, description="what happens to a row that this sink cannot write; only for kafka and sql"
    )
    parallelism: Parallelism | None = Field(default=None, description="default: the pipeline's")
    partition: PartitionField | None = Field(default=None, description="how rows are spread over the subtasks")


class SinkNode(SinkFields):
    """A sink: what it reads and the connector that writes it."""

    connector: str
    config: SerializeAsAny[SinkConfig]

    def to_dict(self) -> dict[str, Any]:
        """The file form, without defaults."""
        data: dict[str, Any] = {"from": self.from_, self.connector: config_dict(self.config)}
        if self.format is not None:
            data["format"] = format_form(self.format)
        if self.key_format is not None:
            data["key_format"] = format_form(self.key_format)
        if self.on_error is not OnError.FAIL:
            data["on_error"] = error_rule_form(self.on_error)
        return data | _placement(self.parallelism, self.partition)


class TestCase(FileModel):
    """Rows in, rows out: `inputs` by source, `outputs` by sink or step. Rows stay as they were written."""

    __test__ = False

    name: str = Field(min_length=1, description="what the case shows")
    inputs: dict[str, tuple[Row, ...]] = Field(description="rows by source; a row may carry $timestamp, $partition")
    outputs: dict[str, tuple[Row, ...]] = Field(description="expected rows by sink or step")


def _pipeline_name(name: str) -> str:
    if not PIPELINE_NAME.match(name):
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        raise wrong(f"{name!r} is not a pipeline's name", f"write a-z, 0-9 and dashes, such as {near or 'my-pipeline'}")
    return name


class PipelineFields(FileModel):
    """The top-level fields but for the nodes."""

    name: Annotated[str, AfterValidator(_pipeline_name)] = Field(description="letters a-z, digits and dashes")
    parallelism: Parallelism = Field(default=1, description="subtasks of a node that sets none itself")
    max_parallelism: Parallelism = Field(
        default=128,
        description=f"number of key groups, 1 to {MAX_PARALLELISM}; a change needs --max-parallelism",
    )
    batch: Batch = Field(default_factory=Batch, description="how long and how large batches get")
    checkpoint: Checkpoint = Field(default_factory=Checkpoint, description="how often and where state is kept")
    state: State = Field(default_factory=State, description="where operators keep their state while they run")
    restart: RestartField = Field(default_factory=ExponentialDelay, description="what follows a failure")


class Pipeline(PipelineFields):
    """A whole pipeline. Names are unique over sources, steps and sinks."""

    sources: dict[str, SourceNode]
    steps: dict[str, StepNode] = Field(default_factory=dict)
    sinks: dict[str, SinkNode]
    tests: tuple[TestCase, ...] = ()
    hidden: dict[str, tuple[str, ...]] = Field(default_factory=dict, repr=False)
    """What errors, logs and plans must not show: `core.text.concealment`."""
    files: dict[str, bytes] = Field(default_factory=dict, repr=False)
    """Contents of the files that formats name: `spec.travelling_files`."""

    @property
    def formats(self) -> Iterator[tuple[tuple[str, str, str], FormatUse]]:
        """Every format that a node uses, with its path in the file."""
        nodes: list[tuple[str, str, SourceNode | SinkNode]] = [("sources", *each) for each in self.sources.items()]
        nodes += [("sinks", *each) for each in self.sinks.items()]
        for group, name, node in nodes:
            for key, use in (("format", node.format), ("key_format", node.key_format)):
                if use is not None:
                    yield (group, name, key), use

    def to_dict(self) -> dict[str, Any]:
        """The canonical file form: plain data without defaults. Contains secrets, unlike `shown`."""
        data: dict[str, Any] = {"name": self.name}
        if self.parallelism != 1:
            data["parallelism"] = self.parallelism
        if self.max_parallelism != 128:
            data["max_parallelism"] = self.max_parallelism
        for key in ("batch", "checkpoint", "state"):
            if settings := config_dict(getattr(self, key)):
                data[key] = settings
        if self.restart != ExponentialDelay():
            data["restart"] = restart_dict(self.restart)
        data["sources"] = {name: node.to_dict() for name, node in self.sources.items()}
        if self.steps:
            data["steps"] = {name: node.to_dict() for name, node in self.steps.items()}
        data["sinks"] = {name: node.to_dict() for name, node in self.sinks.items()}
        if self.tests:
            data["tests"] = [case.model_dump(mode="python") for case in self.tests]
        if self.hidden:
            data[HIDDEN_KEY] = {name: list(texts) for name, texts in self.hidden.items()}
        if self.files:
            data[FILES_KEY] = files_form(self.files)
        return data

    def shown(self) -> dict[str, Any]:
        """The file form with secrets masked, for explain, manifests and logs."""
        data = self.to_dict()
        if self.files:
            data[FILES_KEY] = data[FILES_KEY]["names"]
        for group, nodes in (("sources", self.sources), ("sinks", self.sinks)):
            for name, node in nodes.items():
                shown = masked_config(node.config, data[group][name][node.connector])
                data[group][name][node.connector] = shown
        for (group, name, key), use in self.formats:
            if use.options:
                data[group][name][key] = {use.name: masked_config(use.config, use.options)}
        return data


def config_dict(config: Config) -> dict[str, Any]:
    """The file form of a config, without defaults."""
    return config.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _placement(parallelism: int | None, partition: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if parallelism is not None:
        data["parallelism"] = parallelism
    if partition is not None:
        data["partition"] = partition_form(partition)
    return data
