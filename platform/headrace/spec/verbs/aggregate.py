"""`aggregate: {name: <aggregate expression>}`, with `key_by`, `window` and the fields beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.core.config import Duration
from headrace.spec.columns import ColumnList
from headrace.spec.expressions import NamedExpressions
from headrace.spec.verbs.verb import Form, Verb
from headrace.spec.window import WindowField, window_dict


class Aggregate(Verb):
    """Aggregates rows by key and window. Without a window the aggregate is running, and its rows update.

    `lateness`: `row` judges a row by its own partition's watermark, `operator` by the step's (not replayable).
    `order`: `event` gives first and last the total order of rows, `arrival` the order they come in (not replayable).
    """

    NAME = "aggregate"
    FORM = Form.STEP
    BESIDE = ("key_by", "window", "allowed_lateness", "lateness", "order")
    SHORTEST = "{name: count(*)}"
    EXPRESSIONS = ()
    EXAMPLE = """\
hourly:
  from: departed
  key_by: [origin]
  window: {tumbling: 1h}
  allowed_lateness: 10m
  aggregate:
    flights: count(*)
    late: count(*) filter (where dep_delay > 15)
    worst: max(dep_delay)
"""

    key_by: ColumnList = Field(default=(), description="columns that rows are grouped by")
    window: WindowField | None = Field(default=None, description="windows of event time; none: a running aggregate")
    aggregate: NamedExpressions = Field(description="columns to compute: {name: aggregate expression}")
    allowed_lateness_ms: Annotated[Duration, Field(ge=0)] = Field(
        default=0,
        validation_alias="allowed_lateness",
        serialization_alias="allowed_lateness",
        description="late rows still count for this long after their window closed; the result then updates",
    )
    lateness: Literal["row", "operator"] = Field(
        default="row", description="what judges a row late: its own partition, or the step as a whole"
    )
    order: Literal["event", "arrival"] = Field(default="event", description="the order that first and last follow")

    def file_form(self) -> dict[str, Any]:
        """The fields that are not defaults, in the order in which people write them."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data["aggregate"] = dict(self.aggregate)
        if self.window is not None:
            data["window"] = window_dict(self.window)
        order = ("key_by", "window", "aggregate", "allowed_lateness", "lateness", "order")
        return {key: data[key] for key in order if key in data}

    @classmethod
    def has_late(cls, step: Mapping[str, object]) -> bool:
        """With a window."""
        return step.get("window") is not None
