"""The pipelines of the Kafka benchmarks, in the form that the engine reads."""

from __future__ import annotations

from typing import Any


def windowed(brokers: str, source: str, sink: str) -> dict[str, Any]:
    """K: count and sum by key and 10 s window."""
    return {
        "name": "bench-k",
        "sources": {"events": _source(brokers, source, "timestamp", {"column": "ts", "out_of_orderness": "1s"})},
        "steps": {
            "counted": {
                "from": "events",
                "key_by": ["k"],
                "window": {"tumbling": "10s"},
                "aggregate": {"n": "count(*)", "s": "sum(v)"},
            }
        },
        "sinks": {"out": {"from": "counted", "kafka": {"brokers": brokers, "topic": sink}, "format": "json"}},
    }


def passed(brokers: str, source: str, sink: str, *, bounded: bool = True) -> dict[str, Any]:
    """P: a filter."""
    return {
        "name": "bench-p",
        "sources": {"events": _source(brokers, source, "int64", None, bounded=bounded)},
        "steps": {"kept": {"from": "events", "filter": "v > 0.5"}},
        "sinks": {"out": {"from": "kept", "kafka": {"brokers": brokers, "topic": sink}, "format": "json"}},
    }


def broken(brokers: str, source: str, sink: str) -> dict[str, Any]:
    """1 % of the messages are bad: they are diverted, with their offset and the reason."""
    events = _source(brokers, source, "timestamp", None)
    events["schema"]["k"] = "int64 not null"
    kafka = {"brokers": brokers, "topic": sink}
    return {
        "name": "bench-garbage",
        "sources": {"events": events | {"on_error": "divert"}},
        "sinks": {
            "out": {"from": "events", "kafka": kafka, "format": "json"},
            "bad": {"from": "events.bad", "kafka": kafka, "format": "json"},
        },
    }


def _source(brokers: str, topic: str, ts: str, time: dict[str, str] | None, *, bounded: bool = True) -> dict[str, Any]:
    kafka = {"brokers": brokers, "topic": topic, "start": "earliest"}
    if bounded:
        kafka["stop"] = "latest"
    else:
        kafka["start"] = "latest"
    node: dict[str, Any] = {"kafka": kafka, "format": "json", "schema": {"k": "int64", "ts": ts, "v": "float64"}}
    return node if time is None else node | {"time": time}
