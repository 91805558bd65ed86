"""What every sink needs of checkpoints to deliver exactly once, in the same words. Pure."""

from __future__ import annotations

from headrace.connect.sink import CheckpointTerms


def refused_terms(terms: CheckpointTerms | None) -> list[str]:
    """Why `delivery: exactly-once` cannot be kept with these checkpoints, as messages with their remedy; empty where it
    can, or where nothing is known of checkpoints."""
    if terms is None:
        return []
    if terms.interval_ms is None:
        return [
            "delivery: exactly-once makes rows visible when a checkpoint is committed, and there are no checkpoints\n"
            "  give checkpoint an interval, such as 10s, or write delivery: at-least-once"
        ]
    if not terms.aligned:
        return [
            "delivery: exactly-once needs aligned barriers, and checkpoint.mode is at-least-once\n"
            "  write checkpoint: {mode: exactly-once}, or delivery: at-least-once"
        ]
    return []
