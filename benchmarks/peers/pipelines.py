"""The jobs as Headrace's pipelines: exactly once, a checkpoint a second."""

from __future__ import annotations

from typing import Any, assert_never

from peers.jobs import CHECKPOINT_MS, OUT_OF_ORDER_MS, WINDOW_MS, Job, Work
from peers.wide_rows import QUANTITY_LIMIT, TYPES


def pipeline(job: Job, brokers: str, source: str, sink: str, *, stop: dict[int, int]) -> dict[str, Any]:
    """Returns the pipeline that reads each partition of `source` up to its offset in `stop` and writes `sink`."""
    kafka = {"brokers": brokers, "topic": source, "start": "earliest", "stop": {source: stop}}
    events: dict[str, Any] = {"kafka": kafka, "format": "json"}
    match job.work:
        case Work.WINDOW:
            events |= {
                "schema": {"k": "int64", "ts": "timestamp", "v": "float64"},
                "time": {"column": "ts", "out_of_orderness": f"{OUT_OF_ORDER_MS}ms"},
            }
            steps = _windowed()
        case Work.FILTER:
            events |= {"schema": {"k": "int64", "ts": "int64", "v": "float64"}}
            steps = {"results": {"from": "events", "filter": "v > 0.5"}}
        case Work.WIDE:
            events |= {"schema": TYPES}
            steps = {"results": {"from": "events", "filter": f"quantity > {QUANTITY_LIMIT}"}}
        case _:
            assert_never(job.work)
    output = {"brokers": brokers, "topic": sink, "delivery": "exactly-once"}
    state = {} if job.state_mb is None else {"state": {"backend": "disk", "memory": f"{job.state_mb}MiB"}}
    return {
        "name": f"peers-{job.name.lower()}",
        **state,
        "checkpoint": {"interval": f"{CHECKPOINT_MS}ms"},
        "sources": {"events": events},
        "steps": steps,
        "sinks": {"out": {"from": "results", "kafka": output, "format": "json"}},
    }


def _windowed() -> dict[str, Any]:
    return {
        "windowed": {
            "from": "events",
            "key_by": ["k"],
            "window": {"tumbling": f"{WINDOW_MS}ms"},
            "aggregate": {"n": "count(*)", "s": "sum(v)"},
        },
        "results": {"from": "windowed", "select": {"k": "k", "w": "epoch_ms(window_start)", "n": "n", "s": "s"}},
    }
