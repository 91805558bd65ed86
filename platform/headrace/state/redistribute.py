"""Selects the rows of a state that belong to a subtask, whatever parallelism wrote them. Pure.

    KEYED      rows whose key group the subtask owns; without key columns: all to subtask 0
    LIST       every `parallelism`-th row
    UNION      all rows
    BROADCAST  all rows (of one subtask's copy, chosen by the caller)

This module must not know files: `needed` decides from the key groups of a file whether the file must be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import polars as pl

from headrace.core.keygroups import group_range, key_groups
from headrace.state.snapshot import StateKind


def group_span(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """First and last key group of a subtask, inclusive."""
    owned = group_range(subtask, parallelism, max_parallelism)
    return owned.start, owned.stop - 1


def needed(
    kind: StateKind,
    keys: Sequence[str],
    groups: tuple[int, int],
    *,
    subtask: int,
    parallelism: int,
    max_parallelism: int,
) -> bool:
    """Whether rows written by the owner of `groups` (first, last) can belong to `subtask`."""
    if kind is not StateKind.KEYED:
        return True
    if not keys:
        return subtask == 0
    first, last = group_span(subtask, parallelism, max_parallelism)
    return groups[0] <= last and first <= groups[1]


def share(
    frame: pl.DataFrame,
    kind: StateKind,
    keys: Sequence[str],
    subtask: int,
    parallelism: int,
    max_parallelism: int,
    *,
    first_row: int = 0,
) -> pl.DataFrame:
    """The rows of `frame` that belong to `subtask`.

    `first_row`: rows of a LIST state in the frames before this one, so that short frames are spread too.
    """
    match kind:
        case StateKind.UNION | StateKind.BROADCAST:
            return frame
        case StateKind.LIST:
            if parallelism == 1:
                return frame
            return frame.gather_every(parallelism, (subtask - first_row) % parallelism)
        case StateKind.KEYED:
            return _keyed(frame, keys, subtask, parallelism, max_parallelism)
        case _:
            assert_never(kind)


def _keyed(
    frame: pl.DataFrame, keys: Sequence[str], subtask: int, parallelism: int, max_parallelism: int
) -> pl.DataFrame:
    if parallelism == 1:
        return frame
    if not keys:
        return frame if subtask == 0 else frame.clear()
    if not frame.height:
        return frame
    first, last = group_span(subtask, parallelism, max_parallelism)
    groups = key_groups(frame, keys, max_parallelism)
    return frame.filter(pl.Series(np.logical_and(groups >= first, groups <= last)))
