"""Decides which runs are merged: tiers of four, as in a log-structured merge tree. Pure.

A tier holds runs of similar size, each tier four times as large as the one before. Four runs of a tier are merged, with
all smaller runs that are newer. So a row is merged once per tier, and n rows have at most three runs a tier. Merged are
neighbours in time only, so that the order of runs stays the order in which their rows were written.
"""

from __future__ import annotations

from collections.abc import Sequence

RUNS_A_TIER = 4
RUNS_MAX = 24
"""Runs of a table beyond which all of them are merged, whatever their sizes."""
_ROWS_LEAST = 4096
"""Runs up to this size are in the lowest tier."""


def due(rows: Sequence[int]) -> int | None:
    """The index of the first run to merge, together with all later ones; None: no merge is due.

    rows   the rows of each run, the newest last
    """
    if len(rows) > RUNS_MAX:
        return 0
    tiers = [_tier(count) for count in rows]
    for tier in sorted(set(tiers), reverse=True):
        first = len(tiers)
        while first > 0 and tiers[first - 1] <= tier:
            first -= 1
        if tiers[first:].count(tier) >= RUNS_A_TIER:
            return first
    return None


def _tier(rows: int) -> int:
    tier, most = 0, _ROWS_LEAST
    while rows > most:
        tier, most = tier + 1, most * RUNS_A_TIER
    return tier
