"""Folds the chains of a large graph, so that it fits on a screen. Pure.

A chain is nodes of one task that follow each other without a branch: rows pass through them in one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.client.models import NodeStatus
from headrace.ui.views.graph import Load, load_of

NODES_MAX = 20
"""A graph of more nodes is folded."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A graph of boxes; each is called as its first node.

    inputs    box -> the boxes that it reads
    members   box -> its nodes, in the order of the rows
    """

    inputs: Mapping[str, tuple[str, ...]]
    members: Mapping[str, tuple[str, ...]]

    def box_of(self, node: str | None) -> str | None:
        """The box that shows a node; None: none does."""
        return next((box for box, nodes in self.members.items() if node in nodes), None)

    @property
    def labels(self) -> Mapping[str, str]:
        """Box -> its nodes as text."""
        return {box: " → ".join(nodes) for box, nodes in self.members.items()}


def folded(nodes: Sequence[NodeStatus]) -> Folded:
    """Returns the graph, with each chain in one box if there are more than `NODES_MAX` nodes."""
    box = {each.node: each.node for each in nodes}
    if len(nodes) > NODES_MAX:
        _fold(nodes, box)
    members: dict[str, list[str]] = {}
    for each in nodes:
        members.setdefault(box[each.node], []).append(each.node)
    inputs: dict[str, dict[str, None]] = {name: {} for name in members}
    for each in nodes:
        own = box[each.node]
        inputs[own].update({box[above]: None for above in each.inputs if box.get(above, own) != own})
    return Folded(
        {name: tuple(above) for name, above in inputs.items()},
        {name: tuple(own) for name, own in members.items()},
    )


def _fold(nodes: Sequence[NodeStatus], box: dict[str, str]) -> None:
    """Moves each node that continues a chain into the box of the node before it. `nodes` come in the order of rows."""
    task = {each.node: each.task for each in nodes}
    readers = Counter(above for each in nodes for above in each.inputs)
    for each in nodes:
        if len(each.inputs) != 1:
            continue
        (above,) = each.inputs
        if readers[above] == 1 and each.task and task.get(above) == each.task:
            box[each.node] = box[above]


def load_of_box(nodes: Sequence[NodeStatus]) -> Load:
    """What the box of a chain shows: its busiest node, and the rate at its end."""
    loads = [load_of(each) for each in nodes]
    return Load(max(each.busy for each in loads), max(each.backpressured for each in loads), loads[-1].note)
