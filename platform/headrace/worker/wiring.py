"""Assigns a channel of each target mailbox to every sender of every edge. Pure.

A mailbox has one channel for every sender that feeds its subtask, numbered in the order of edges, then senders. A
sender that never feeds a subtask (forward, rescale) has no channel there, so the gate does not wait for its signals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.exchange.edge.partition import Partitioner, open_partitioner
from headrace.plan.physical import PhysicalPlan, TaskEdge


@dataclass(frozen=True, slots=True)
class Sender:
    """The sending end of an edge in one subtask: target subtask -> channel number of its mailbox."""

    partitioner: Partitioner
    channels: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The channels of a plan.

    senders   (edge, sending subtask) -> Sender
    channels  task -> for each of its mailboxes, the number of the input that each channel belongs to
    """

    senders: Mapping[tuple[TaskEdge, int], Sender]
    channels: Mapping[str, tuple[tuple[int, ...], ...]]


def wire(plan: PhysicalPlan) -> Wiring:
    """Numbers the channels of a plan. Every slot computes the same numbers."""
    inputs: dict[str, list[list[int]]] = {
        edge.to_task: [[] for _ in range(plan.task(edge.to_task).parallelism)] for edge in plan.edges
    }
    senders: dict[tuple[TaskEdge, int], Sender] = {}
    for edge in plan.edges:
        sending = plan.task(edge.from_task).parallelism
        mailboxes = inputs[edge.to_task]
        for subtask in range(sending):
            partitioner = open_partitioner(
                edge.partitioning,
                subtask=subtask,
                senders=sending,
                receivers=len(mailboxes),
                max_parallelism=plan.max_parallelism,
            )
            channels: dict[int, int] = {}
            for target in partitioner.targets:
                channels[target] = len(mailboxes[target])
                mailboxes[target].append(edge.input)
            senders[edge, subtask] = Sender(partitioner, channels)
    return Wiring(senders, {task: tuple(map(tuple, mailboxes)) for task, mailboxes in inputs.items()})
