"""What every sink needs of checkpoints to deliver exactly once, in the same words. Pure."""

from __future__ import annotations

from headrace.connect.sink import SinkContext


def refused_terms(context: SinkContext) -> list[str]:
    """Why `delivery: exactly-once` cannot be kept with these checkpoints, as messages; empty where it can, or where
    nothing is known of checkpoints."""
    terms = context.checkpoint
    if terms is None:
        return []
    if terms.interval_ms is None:
        return ["delivery: exactly-once commits at checkpoints, and they are off: set checkpoint.interval, such as 10s"]
    if not terms.aligned:
        return ["delivery: exactly-once needs checkpoint.mode: exactly-once: at-least-once repeats rows by itself"]
    return []
