"""Compares history with rows that were published live: a replay that publishes nothing, against a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from headrace.local.comparison.row_equality import RowsCompared
    from headrace.plan.physical import SinkSpec
    from headrace.spark.driver.publication import Say
    from headrace.spark.launch.replay import Prepared


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The topic, and the compared range: start and stop of its source, as text."""

    topic: str
    begin: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True)
class ComparedWithTopic:
    """`rows.missing`: rows of history that the topic lacks; `rows.extra`: rows that only the topic has.

    unreadable   records that are no rows of the sink; reasons: of some of them
    late         rows that the replay dropped because they were late
    """

    sink: str
    update_key: tuple[str, ...] | None
    rows: RowsCompared
    records: int
    unreadable: int
    reasons: tuple[str, ...]
    rows_in: int
    late: int

    @property
    def same(self) -> bool:
        """Whether the topic has exactly the rows of history."""
        return self.rows.same and not self.unreadable


def compare_with_topic(
    spark: SparkSession, prepared: Prepared, wanted: TopicRange, sink: str | None, say: Say
) -> ComparedWithTopic:
    """Runs a prepared replay that does not publish, and compares one sink's rows with a topic.

    sink   None: the only one that writes to topics. Raises UserError, ExternalError, and the tasks' errors.
    """
    from headrace.execution.planning import plan_sinks
    from headrace.local.comparison.row_equality import compare_rows
    from headrace.local.inspection.published import as_read_back, read_published
    from headrace.spark.launch.bounds import parsed
    from headrace.spark.launch.staged_rows import stage

    assert not prepared.options.publish, "history is looked at, not published"
    spec = chosen_sink({each.node: each for _, each in plan_sinks(prepared.plans.plan(1))}, sink)
    # raises for a bad range before history is computed
    begin, end = parsed(wanted.begin or "earliest"), parsed(wanted.end or "latest")
    published = read_published(spec, wanted.topic, start=begin, stop=end)
    say(f"{wanted.topic}: {published.records:,} records")
    staged = stage(prepared, spark, say)
    try:
        history = as_read_back(spec, staged.frame(spec.node))
    finally:
        staged.delete()
    return ComparedWithTopic(
        sink=spec.node,
        update_key=spec.update_key,
        rows=compare_rows(history, published.rows),
        records=published.records,
        unreadable=published.unreadable,
        reasons=tuple(published.reasons),
        rows_in=staged.outcome.rows_in,
        late=staged.outcome.late,
    )


def chosen_sink(sinks: Mapping[str, SinkSpec], name: str | None) -> SinkSpec:
    """Returns the chosen sink. Raises UserError with the candidates."""
    from headrace.core.errors import UserError, did_you_mean

    own = {
        sink: spec for sink, spec in sinks.items() if "topic" in type(spec.config).model_fields and not spec.implicit
    }
    if name is not None:
        if name in sinks:
            return sinks[name]
        raise UserError(
            f"there is no sink {name!r}", remedy=did_you_mean(name, tuple(sinks)) or f"sinks: {', '.join(sinks)}"
        )
    if len(own) == 1:
        return next(iter(own.values()))
    if not own:
        raise UserError("no sink writes to a topic", remedy="--against compares with what a sink published to a topic")
    raise UserError("several sinks write to topics", remedy=f"say which one: --sink {' or --sink '.join(own)}")
