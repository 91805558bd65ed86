"""The checkpoint settings that sinks depend on, from the pipeline. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from headrace.connect.sink import CheckpointTerms
from headrace.spec.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Restart

if TYPE_CHECKING:
    from headrace.spec.pipeline import Pipeline

RATE_DELAY_MS = 1_000
"""The restart delay of `failure-rate`, which has no setting for it."""


def checkpoint_terms(pipeline: Pipeline) -> CheckpointTerms:
    """The checkpoint terms of a pipeline."""
    checkpoint = pipeline.checkpoint
    return CheckpointTerms(
        interval_ms=checkpoint.interval_ms,
        timeout_ms=checkpoint.timeout_ms,
        aligned=checkpoint.mode == "exactly-once",
        tolerable_failures=checkpoint.tolerable_failures,
        restart_delay_ms=_longest_delay_ms(pipeline.restart),
    )


def _longest_delay_ms(restart: Restart) -> int:
    match restart:
        case ExponentialDelay():
            return restart.max_ms
        case FixedDelay():
            return restart.delay_ms
        case FailureRate():
            return RATE_DELAY_MS
        case NoRestart():
            return 0
        case _:
            assert_never(restart)
