"""Window definitions as state carries them: text, such as `tumbling 3600000 offset 0 UTC`."""

from __future__ import annotations

WALL_CLOCK = " wall"
"""Ends the definition of windows that divide local time by the wall clock. Without it, a state is of a version that
divided it by elapsed time: the windows differ where clocks change."""


def same_window(before: str, now: str) -> bool:
    """Whether windows of two definitions have the same bounds, at least while clocks run evenly."""
    return before in (now, now.removesuffix(WALL_CLOCK))
