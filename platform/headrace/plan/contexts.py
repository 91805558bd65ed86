"""The contexts with which sources and sinks are opened, in a slot or beside the coordinator, built from the plan."""

from __future__ import annotations

from headrace.connect.format import FormatContext, Prepared, PreparedFormats, Side
from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.connect.source import SourceContext
from headrace.operators.operator import OnError
from headrace.plan.physical import RecordTime, SinkSpec, SourceSpec


def source_context(spec: SourceSpec, pipeline: str, poll_rows_max: int) -> SourceContext:
    """The context of a source's enumerator and reader."""
    wanted = {kind for kind, _ in spec.metadata}
    diverted = spec.on_error is OnError.DIVERT
    return SourceContext(
        pipeline=pipeline,
        node=spec.node,
        schema=spec.schema,
        format=None if spec.format is None else spec.format.name,
        format_options={} if spec.format is None else spec.format.config.model_dump(),
        poll_rows_max=poll_rows_max,
        wants_keys="key" in wanted or diverted or spec.key_format is not None,
        wants_headers="headers" in wanted or spec.keeps_headers or _reads_headers(spec),
        wants_timestamps="timestamp" in wanted or diverted or isinstance(spec.time, RecordTime),
    )


def sink_context(
    spec: SinkSpec,
    job: str,
    subtask: int = 0,
    *,
    parallelism: int,
    terms: CheckpointTerms,
    attempt: int = 0,
    formats: PreparedFormats | None = None,
) -> SinkContext:
    """The context of a sink's writer and committer. `attempt`: 0 before the first attempt."""
    return SinkContext(
        job=job,
        node=spec.node,
        subtask=subtask,
        parallelism=parallelism,
        schema=spec.schema,
        update_key=spec.update_key,
        format=None if spec.format is None else spec.format.name,
        format_options={} if spec.format is None else spec.format.config.model_dump(),
        attempt=attempt,
        checkpoint=terms,
        prepared=_prepared(spec, formats or {}, "value"),
    )


def format_context(spec: SourceSpec | SinkSpec, formats: PreparedFormats, side: Side = "value") -> FormatContext:
    """The context of a node's format. formats: what formats have prepared."""
    form = spec.format if side == "value" else spec.key_format
    return FormatContext(
        node=spec.node,
        end="source" if isinstance(spec, SourceSpec) else "sink",
        side=side,
        topic=spec.config.only_topic,
        prepared=_prepared(spec, formats, side),
        files={} if form is None else form.files,
    )


def _prepared(spec: SourceSpec | SinkSpec, formats: PreparedFormats, side: Side) -> Prepared | None:
    return formats.get(spec.node, {}).get(side)


def _reads_headers(spec: SourceSpec) -> bool:
    """Whether one of a source's formats needs the headers of records."""
    return any(form is not None and form.config.reads_headers for form in (spec.format, spec.key_format))
