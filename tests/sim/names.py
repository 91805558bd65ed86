"""The transactional ids of the simulated job, by the real rules."""

from __future__ import annotations

from headrace_connectors.kafka.clients.transaction_names import lanes_of, names_of
from sim.external.outside import SINK
from sim.story import Story

JOB = "j1"


def names_of_writer(story: Story, attempt: int, subtask: int) -> tuple[str, ...]:
    """Those of one writer."""
    lanes = lanes_of(story.checkpoint.tolerable_failures)
    return tuple(str(name) for name in names_of(JOB, SINK, attempt, subtask, lanes))


def names_of_attempt(story: Story, parallelism: int, attempt: int) -> dict[str, tuple[str, ...]]:
    """Those of all its writers; none where the sink has no transactions."""
    if not story.transactional:
        return {}
    return {SINK: tuple(name for subtask in range(parallelism) for name in names_of_writer(story, attempt, subtask))}
