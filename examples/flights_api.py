"""Hourly flights, mean and worst delay by origin and carrier: `flights.yaml` as a Python pipeline.

    headrace run examples/flights_api.py        runs it, as any pipeline file
    headrace explain examples/flights_api.py    shows what would run
    python examples/flights_api.py              the same from Python, with the result as an object

Reads the topic `flights` (JSON) on $KAFKA_BROKERS (default localhost:9092) up to its present end, writes `delays-api`.
"""

import os

import headrace as hr

BROKERS = os.environ.get("KAFKA_BROKERS", "localhost:9092")

pipeline = hr.Pipeline("flight-delays-api")

flights = pipeline.source(
    "flights",
    kafka={"brokers": BROKERS, "topic": "flights", "stop": "latest"},
    format="json",
    schema={
        "origin": "string not null",
        "carrier": "string not null",
        "flight": "int64",
        "dest": "string",
        "scheduled": "timestamp not null",
        "dep_delay": "float64",
    },
    time={"column": "scheduled", "out_of_orderness": "30m"},
)

delay = hr.col("dep_delay")

hourly = flights.filter("departed", delay.is_not_null()).aggregate(
    "hourly",
    key_by=["origin", "carrier"],
    window={"tumbling": "1h"},
    aggregate={"flights": hr.count(), "mean_delay": hr.avg(delay), "worst": hr.max_(delay)},
)

hourly.sink(
    "delays",
    kafka={
        "brokers": BROKERS,
        "topic": "delays-api",
        "key": ["origin", "carrier"],
        "create_topic": {"partitions": 3},
    },
    format="json",
)
hourly.late.sink(
    "flights_late",
    kafka={
        "brokers": BROKERS,
        "topic": "flights-late-api",
        "key": ["origin"],
        "create_topic": {"partitions": 3},
    },
    format="json",
)

if __name__ == "__main__":
    result = pipeline.run()
    print(f"{result.state}: {result.rows_in:,} flights in, {result.rows_out:,} rows out, {result.late:,} late")
