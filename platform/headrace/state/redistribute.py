"""Selects the rows of a state that belong to a subtask, whatever parallelism wrote them. Pure.

    KEYED      rows whose key group the subtask owns; without key columns: all to subtask 0
    LIST       every `parallelism`-th row
    UNION      all rows
    BROADCAST  all rows (of one subtask's copy, chosen by the caller)

This module must not know files: `checkpoint.own_handles` decides which of them a subtask needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import polars as pl

from headrace.core.group_ranges import group_span
from headrace.core.keygroups import key_groups
from headrace.state.snapshot import StateKind


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
