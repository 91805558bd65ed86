"""The checkpoint settings that every exactly-once sink requires, with the same error texts. Pure."""

from __future__ import annotations

from headrace.connect.sink import CheckpointTerms


def refused_terms(terms: CheckpointTerms | None) -> list[str]:
    """Reasons why `delivery: exactly-once` is impossible with these checkpoints, as messages with their remedy; empty
    if it is possible, or if the checkpoint settings are unknown."""
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
