"""An example of each verb and window of the steps reference, and the pipeline that they belong to."""

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

VERB_EXAMPLES: dict[str, str] = {
    "filter": """\
late:
  from: flights
  filter: dep_delay > 15 and carrier in ('UA', 'DL')
""",
    "select": """\
delays:
  from: departed
  select:
    origin: origin
    late: dep_delay > 15
    day: date_trunc('day', scheduled)
""",
    "with_columns": """\
in_hours:
  from: departed
  with_columns:
    delay_hours: dep_delay / 60
""",
    "drop": """\
without_codes:
  from: flights
  drop: [codes]
""",
    "rename": """\
renamed:
  from: flights
  rename: {origin: airport, dep_delay: delay}
""",
    "explode": """\
one_code_each:
  from: flights
  explode: codes
""",
    "union": """\
early:
  from: departed
  filter: dep_delay < 0
very_late:
  from: departed
  filter: dep_delay > 60
unusual:
  union: [early, very_late]
""",
    "map": """\
scored:
  from: departed
  map:
    function: flight_functions:add_score
    schema:
      origin: string not null
      carrier: string
      dep_delay: float64
      codes: [string]
      scheduled: timestamp
      score: float64
""",
    "aggregate": """\
hourly:
  from: departed
  key_by: [origin]
  window: {tumbling: 1h}
  allowed_lateness: 10m
  aggregate:
    flights: count(*)
    late: count(*) filter (where dep_delay > 15)
    worst: max(dep_delay)
""",
}
"""Verb -> steps of a pipeline file, of which the last one has the verb."""

WINDOW_EXAMPLES: dict[str, str] = {
    "tumbling": "window: {tumbling: 1d, timezone: Europe/Berlin}\n",
    "sliding": "window: {sliding: 10m, every: 1m}\n",
    "cumulate": "window: {cumulate: 1d, every: 1h}\n",
}
"""Kind of window -> a field of a step that aggregates."""
