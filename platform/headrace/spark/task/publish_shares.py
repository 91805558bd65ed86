"""Publishes decided, staged rows: by publishers in Spark tasks, or by writers on the driver.

share (sink, subtask) ──> the connector's publisher, in a Spark task per share: each row once, also after retries
                    └──> if the sink has none: one writer after the other, on the driver, at least once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from headrace.checkpoint.manifest import Document
from headrace.checkpoint.stores.opening import open_store
from headrace.connect.format import Side
from headrace.connect.publisher import Share
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.config import FileForm
from headrace.execution.planning import plan_sinks
from headrace.plan.contexts import sink_context
from headrace.plan.physical import SinkSpec
from headrace.spark.task.failures import task_failures
from headrace.spark.task.order import StagedShare
from headrace.spark.task.output.staging_end import read_staged
from headrace.spark.task.plan_cache import known_plan
from headrace.worker.task.sink_task import open_encoder, open_key_encoder

ROWS_AT_ONCE = 32_768
"""Rows of a batch for a sink."""


class PublishOrder(Document):
    """The command to publish one share. pipeline: file form, with secrets; storage: URL of the job's folder; formats:
    what formats have prepared."""

    job: str
    attempt: int
    epoch: int
    pipeline: FileForm
    plan_hash: str
    storage: str
    parallelism: int
    share: StagedShare
    formats: dict[str, dict[Side, dict[str, Any]]] = Field(default={})


def publish_orders(
    common: Mapping[str, Any], shares: Sequence[StagedShare], parallelism: Mapping[str, int]
) -> list[PublishOrder]:
    """Returns an order for each share. common: the other fields; parallelism: sink -> the greatest number of shares
    that it may have.
    """
    return [PublishOrder(**common, share=share, parallelism=parallelism[share.sink]) for share in shares]


def publish_in_task(data: bytes) -> bytes:
    """Publishes a share in a Spark task. data: the JSON of a PublishOrder. Returns the sink's name. Raises
    TaskFailedError.
    """
    with task_failures():
        order = PublishOrder.model_validate_json(data)
        publish(order)
        return order.share.sink.encode()


def publish(order: PublishOrder) -> None:
    """Publishes the rows of one share that no earlier try has published."""
    spec, context = _opened(order)
    share = Share(order.epoch, order.share.rows)
    publisher = spec.config.open_publisher(context, share)
    assert publisher is not None, f"sink {spec.node} publishes"
    try:
        # the first `published` rows are visible already: the share's files define the order of its rows, so a count is
        # sufficient
        for batch in _batches(order, spec, skip=publisher.published):
            publisher.write(batch)
        publisher.finish()
    finally:
        publisher.close()


def write(order: PublishOrder) -> None:
    """Writes one share with the sink's writer, and commits if it has a committer. A second call writes it again."""
    spec, context = _opened(order)
    writer = spec.config.open_writer(context)
    try:
        for batch in _batches(order, spec, skip=0):
            writer.write(batch)
        prepared = writer.flush(order.epoch)
        committer = spec.config.open_committer(context)
        if committer is not None:
            try:
                committer.commit(committer.describe(prepared))
            finally:
                committer.close()
    finally:
        writer.close()


def _opened(order: PublishOrder) -> tuple[SinkSpec, SinkContext]:
    plan = known_plan(order.pipeline, order.plan_hash)
    spec = next(sink for _, sink in plan_sinks(plan) if sink.node == order.share.sink)
    context = sink_context(
        spec,
        order.job,
        order.share.subtask,
        parallelism=order.parallelism,
        terms=plan.checkpoint,
        attempt=order.attempt,
        formats=order.formats,
    )
    return spec, replace(context, encode_keys=open_key_encoder(spec, order.formats))


def _batches(order: PublishOrder, spec: SinkSpec, *, skip: int) -> Iterator[SinkBatch]:
    """Returns the share's rows from `skip` on, encoded if the sink needs messages."""
    encoder = open_encoder(spec, order.formats)
    for rows in read_staged(order.share.files, open_store(order.storage)):
        left, skip = rows.slice(skip), max(0, skip - rows.height)
        for part in left.iter_slices(ROWS_AT_ONCE):
            messages = None if encoder is None else encoder.encode(part.select(list(spec.encoded.names)))
            yield SinkBatch(part, messages)
