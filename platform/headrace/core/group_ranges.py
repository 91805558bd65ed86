"""The key groups of each subtask: subtask = group * parallelism // max_parallelism.

This module must not know hashes, nor load what computes them: the coordinator uses it.
"""

from __future__ import annotations


def subtask_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask that owns a key group. The C kernel of the split (`kernels/c/group/key_hash.c`) repeats this formula:
    change both."""
    return group * parallelism // max_parallelism


def group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups that a subtask owns; the ranges of all subtasks cover [0, max_parallelism) without overlap."""
    # ceilings: the inverse of `subtask_of`
    begin = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(begin, end)


def group_span(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """First and last key group of a subtask, inclusive."""
    owned = group_range(subtask, parallelism, max_parallelism)
    return owned.start, owned.stop - 1
