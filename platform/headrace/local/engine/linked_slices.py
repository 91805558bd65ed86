"""The slices of a job in one process, linked by direct channels.

slice 0: source ──┬─> mailbox ─> sink        slice i runs subtask i of every task with more than i subtasks, as slot i
                  └─────────┐                does; it puts rows for another slice directly into a mailbox there
slice 1: source ────────────┴─> mailbox ─> sink
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.clock import Clock
from headrace.exchange.output import Channel
from headrace.plan.physical import PhysicalPlan
from headrace.worker.slot.slice import Slice, SliceOptions
from headrace.worker.slot.wiring import wire
from headrace.worker.task.control import SubtaskEvents


def slices_of(plan: PhysicalPlan, options: SliceOptions, events: SubtaskEvents, clock: Clock) -> tuple[Slice, ...]:
    """All slices of a plan by index, not yet open. `options`: for each slice; the index is set here."""
    wiring = wire(plan)
    count = max((task.parallelism for task in plan.tasks), default=0)
    return tuple(Slice(plan, replace(options, index=index), events, clock, wiring=wiring) for index in range(count))


def open_linked(slices: Sequence[Slice]) -> None:
    """Opens every subtask of all slices of a job, without state."""

    def channel(task: str, subtask: int, number: int) -> Channel:
        return Channel(slices[subtask].mailboxes[task], number)

    for part in slices:
        part.open(lambda task: {}, channel)
