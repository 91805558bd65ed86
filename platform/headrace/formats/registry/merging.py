"""What was decoded of each group of frames, as the result for the batch. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from headrace.connect.format import Decoded
from headrace.formats.messages import Indices
from headrace.formats.registry.frames import FrameGroup, Frames


def merged(frames: Frames, decoded: Sequence[Decoded], empty: pl.DataFrame) -> Decoded:
    """The rows of all groups in the order of their messages; bad are messages without a frame, and those of groups.

    decoded  one result for each group, of its payloads
    empty    the columns, for a batch without groups
    """
    goods = [_good(group, result) for group, result in zip(frames.groups, decoded, strict=True)]
    bad = dict(frames.bad)
    for group, result in zip(frames.groups, decoded, strict=True):
        bad.update(zip(group.index[result.bad].tolist(), result.reasons, strict=True))
    skipped = frames.skipped + sum(result.skipped for result in decoded)
    rows, good = _in_order([result.rows for result in decoded], goods, empty)
    bad_index = np.fromiter(sorted(bad), np.int64, len(bad))
    reasons = tuple(bad[index] for index in bad_index.tolist())
    return Decoded(rows, good if bad or skipped else None, bad_index, reasons, skipped)


def _good(group: FrameGroup, result: Decoded) -> Indices:
    return group.index if result.good is None else group.index[result.good]


def _in_order(
    frames: Sequence[pl.DataFrame], goods: Sequence[Indices], empty: pl.DataFrame
) -> tuple[pl.DataFrame, Indices]:
    if not frames:
        return empty, np.empty(0, np.int64)
    if len(frames) == 1:
        return frames[0], goods[0]
    good = np.concatenate(goods)
    order = np.argsort(good, kind="stable")
    return pl.concat(frames)[order], good[order]
