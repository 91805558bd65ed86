"""The pipeline that the examples of the steps reference belong to, and an example of each window."""

from __future__ import annotations

PIPELINE = """\
name: steps
sources:
  flights:
    kafka:
      brokers: localhost:9092
      topic: flights
    format: json
    schema:
      origin: string not null
      carrier: string
      dep_delay: float64
      codes: [string]
      scheduled: timestamp
    time:
      column: scheduled
      out_of_orderness: 30m
steps:
  departed:
    from: flights
    filter: dep_delay is not null
sinks:
  out:
    from: departed
    print: {}
"""
"""Defines the source `flights` and the step `departed`, which the examples read."""

WINDOW_EXAMPLES: dict[str, str] = {
    "tumbling": "window: {tumbling: 1d, timezone: Europe/Berlin}\n",
    "sliding": "window: {sliding: 10m, every: 1m}\n",
    "cumulate": "window: {cumulate: 1d, every: 1h}\n",
}
"""Kind of window -> a field of a step that aggregates."""
