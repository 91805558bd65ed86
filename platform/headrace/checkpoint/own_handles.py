"""The handles of a restored checkpoint that a slot needs. Pure.

This module must not load what reads state: the coordinator uses it, so that a deployment has its slot's handles only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.checkpoint.manifest import StateHandle
from headrace.core.group_ranges import group_span
from headrace.state.snapshot import StateKind


def can_hold(handle: StateHandle, subtask: int, *, of: int, max_parallelism: int) -> bool:
    """Whether rows of this handle can belong to subtask `subtask` out of `of`."""
    if handle.kind != StateKind.KEYED:
        return True
    if not handle.keys:
        return subtask == 0
    first, last = group_span(subtask, of, max_parallelism)
    return handle.first_group <= last and first <= handle.last_group


def own_handles(
    handles: Iterable[StateHandle], slot: int, *, parallelism: Mapping[str, int], max_parallelism: int
) -> tuple[StateHandle, ...]:
    """The handles that can hold rows of the slot's subtasks, in their order.

    parallelism   node -> its number of subtasks in the new attempt; a slot has subtask `slot` of each node with more
    """
    return tuple(
        handle
        for handle in handles
        if slot < (of := parallelism.get(handle.node, 0))
        and can_hold(handle, slot, of=of, max_parallelism=max_parallelism)
    )
