"""Reads published rows back from a sink's topic: with the source of the same connector, decoded by the sink's format.

    sink {brokers, properties, key, ..} + topic ──> source {brokers, properties, topic} ──read to its end──> rows

Independent of the connector: fields that sink and source share are copied. Rows are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import ValidationError

from headrace.connect.format import Decoded, Decoder, Messages, UnknownIds
from headrace.connect.registry import connector
from headrace.connect.source import MessageBatch, SourceConfig, SourceContext
from headrace.core.errors import UserError
from headrace.core.last_rows import last_rows
from headrace.core.types import DataType, Field, ListOf, Schema, Struct
from headrace.plan.contexts import format_context
from headrace.plan.physical import FormatSpec, SinkSpec

TOPIC, START, STOP = "topic", "start", "stop"
POLL_MS = 100
POLL_ROWS = 32_768
UNREADABLE_SHOWN = 5
_KEY, _PLACE = "__message_key", "__place"


@dataclass(slots=True)
class Published:
    """The content of a topic.

    rows         of an updating sink only the final ones: the last one of each key, without deleted ones
    records      number of all records, including tombstones
    unreadable   records that are no rows of the sink; reasons: of the first of them, with their positions
    """

    rows: pl.DataFrame
    records: int = 0
    unreadable: int = 0
    reasons: list[str] = field(default_factory=list)


def as_read_back(spec: SinkSpec, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the sink's rows as a reader of the topic receives them: values that the format does not distinguish
    (JSON: NaN and NULL) become equal. Raises UserError if the format cannot be read.
    """
    form = _format(spec)
    encoder = form.config.open_encoder(spec.encoded, format_context(spec, {}))
    messages = encoder.encode(rows.select(list(spec.encoded.names)))
    decoded = _decoded(_decoder(spec), Messages(messages.cast(pa.large_binary())), spec.node)
    if decoded.reasons:
        raise UserError(
            f"{form.name} cannot read what it wrote for sink {spec.node}: {decoded.reasons[0]}",
            remedy="such rows cannot be compared",
        )
    return decoded.rows


def read_published(spec: SinkSpec, topic: str, *, start: object = "earliest", stop: object = "latest") -> Published:
    """Reads all committed records between start and stop, which have the form of the connector's source.

    Blocks until all of them are read. Raises UserError (unknown topic; nothing that can be read back), ExternalError.
    """
    config = source_of(spec, topic, start=start, stop=stop)
    form = _format(spec)
    context = SourceContext(
        pipeline="headrace",
        node=spec.node,
        schema=_nullable(spec.encoded),
        format=form.name,
        format_options=form.config.model_dump(),
        poll_rows_max=POLL_ROWS,
        wants_keys=True,
        wants_headers=form.config.reads_headers,
    )
    collected = _Collected(config, _decoder(spec), spec.node)
    for batch in _messages(config, context):
        collected.add(batch)
    return collected.published(spec)


def source_of(spec: SinkSpec, topic: str, *, start: object, stop: object) -> SourceConfig:
    """Returns a source that reads the sink's output. Raises UserError if its connector has no source with topics."""
    kind = connector(spec.connector).source
    if (
        kind is None
        or not {TOPIC, START, STOP} <= set(kind.model_fields)
        or TOPIC not in type(spec.config).model_fields
    ):
        raise UserError(
            f"the output of sink {spec.node} cannot be read back: {spec.connector} has no topics",
            remedy="name another sink with --sink",
        )
    given = spec.config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    shared = {name: value for name, value in given.items() if name in kind.model_fields}
    try:
        return kind.model_validate({**shared, TOPIC: topic, START: start, STOP: stop})
    except ValidationError as cause:
        messages = "; ".join(str(each["msg"]) for each in cause.errors())
        raise UserError(f"topic {topic} cannot be read with the sink's settings: {messages}") from cause


def _messages(config: SourceConfig, context: SourceContext) -> Iterator[MessageBatch]:
    enumerator = config.open_enumerator(context)
    try:
        splits = [split for split in enumerator.discover() if split.stop is not None and split.start < split.stop]
    finally:
        enumerator.close()
    waiting = {split.id for split in splits}
    if not waiting:
        return
    reader = config.open_reader(context)
    try:
        reader.assign(splits)
        while waiting:
            polled = reader.poll(POLL_MS)
            assert polled.batch is None or isinstance(polled.batch, MessageBatch), "topics hold messages"
            if polled.batch is not None:
                yield polled.batch
            waiting -= polled.finished
    finally:
        reader.close()


class _Collected:
    """Decoded records of all partitions; those of one partition in order."""

    def __init__(self, config: SourceConfig, decoder: Decoder, node: str) -> None:
        self._config = config
        self._decoder = decoder
        self._node = node
        self._rows: list[pl.DataFrame] = []
        self._tombstones: list[pl.DataFrame] = []
        self._found = Published(pl.DataFrame())

    def add(self, batch: MessageBatch) -> None:
        """Adds the result of a poll."""
        decoded = _decoded(self._decoder, Messages(batch.values, batch.headers), self._node)
        keys = _series(batch.keys, len(batch))
        place = np.arange(self._found.records, self._found.records + len(batch))
        good = decoded.good
        if good is None:
            good = np.arange(len(batch))
        rows = decoded.rows.with_columns(keys.gather(good).alias(_KEY), pl.Series(_PLACE, place[good], pl.Int64))
        self._rows.append(rows)
        dead = np.flatnonzero(_series(batch.values, len(batch)).is_null().to_numpy())
        self._tombstones.append(pl.DataFrame([keys.gather(dead).alias(_KEY), pl.Series(_PLACE, place[dead], pl.Int64)]))
        self._found.records += len(batch)
        self._found.unreadable += len(decoded.bad)
        for index, reason in zip(decoded.bad, decoded.reasons, strict=True):
            if len(self._found.reasons) < UNREADABLE_SHOWN:
                run = next(run for run in batch.runs if run.begin <= index < run.end)
                at = self._config.describe_position(run.split, int(batch.positions[index]))
                self._found.reasons.append(f"{at}: {reason}")

    def published(self, spec: SinkSpec) -> Published:
        """Returns everything."""
        names = list(spec.encoded.names)
        if not self._rows:
            return replace(self._found, rows=_nullable(spec.encoded).empty())
        rows = pl.concat(self._rows)
        if spec.update_key is not None:
            rows = _standing(rows, pl.concat(self._tombstones), _identity(spec, spec.update_key))
        return replace(self._found, rows=rows.select(names))


def _identity(spec: SinkSpec, update_key: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that tell keys apart: the message key, if that is made of the update key, because the values' format
    may write several keys the same (JSON: NaN, infinities and NULL)."""
    made_of_it = bool(update_key) and set(spec.config.key_columns or ()) == set(update_key)
    return (_KEY,) if made_of_it else update_key


def _standing(rows: pl.DataFrame, tombstones: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Returns the last row of each key, unless a later tombstone has its message key."""
    last = last_rows(rows, key)
    deleted = tombstones.group_by(_KEY).agg(pl.col(_PLACE).max().alias("__deleted"))
    joined = last.join(deleted, on=_KEY, how="left", maintain_order="left")
    return joined.filter(pl.col("__deleted").is_null() | (pl.col("__deleted") < pl.col(_PLACE)))


def _series(values: pa.Array | None, length: int) -> pl.Series:
    if values is None:
        return pl.Series(_KEY, [None] * length, pl.Binary)
    return pl.Series(_KEY, values).cast(pl.Binary)


def _format(spec: SinkSpec) -> FormatSpec:
    if spec.format is None or spec.format.config.file_only:
        raise UserError(f"sink {spec.node} writes no messages", remedy="name another sink with --sink")
    if problems := spec.format.config.check_source(_nullable(spec.encoded)):
        raise UserError(
            f"the output of sink {spec.node} cannot be read back: {'; '.join(problems)}",
            remedy="a sink in another format can be compared",
        )
    return spec.format


def _decoder(spec: SinkSpec) -> Decoder:
    return _format(spec).config.open_decoder(_nullable(spec.encoded), format_context(spec, {}))


def _decoded(decoder: Decoder, messages: Messages, node: str) -> Decoded:
    decoded = decoder.decode(messages)
    if isinstance(decoded, UnknownIds):
        raise decoded.error(f"sink {node}")
    return decoded


def _nullable(schema: Schema) -> Schema:
    """Returns the same columns as nullable ones: a format may write NULL for values that it cannot represent."""
    return Schema(tuple(_nullable_field(each) for each in schema.fields))


def _nullable_field(each: Field) -> Field:
    return Field(each.name, _nullable_type(each.type))


def _nullable_type(dtype: DataType) -> DataType:
    match dtype:
        case ListOf(inner):
            return ListOf(_nullable_type(inner))
        case Struct(fields):
            return Struct(tuple(_nullable_field(each) for each in fields))
        case _:
            return dtype
