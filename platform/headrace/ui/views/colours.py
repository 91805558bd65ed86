"""Colours of states and of load. Busy time and backpressured time have hues of their own. Pure."""

from __future__ import annotations

CALM, BUSY, HOT = "#2f9e68", "#d98a12", "#d9482b"
"""Busy for less than half of the time; for up to `HOT_RATIO`; for more: the bottleneck."""
WAITING = "#4c8dd6"
"""Backpressured."""
HALF_RATIO, HOT_RATIO = 0.5, 0.85
LINES = ("#2f8fd8", "#e08a1e", "#3aa76d", "#b065d6", "#d9587a", "#3fb5b5", "#9a8f2d", "#8494a4")
"""Of the lines of a plot; each is readable on light and on dark."""
_STATES = {
    "RUNNING": "green-8",
    "FINISHED": "blue-grey-7",
    "CANCELED": "blue-grey-7",
    "FAILED": "red-8",
    "FAILING": "red-8",
}


def heat(busy: float) -> str:
    """The colour of a busy ratio."""
    if busy < HALF_RATIO:
        return CALM
    return BUSY if busy < HOT_RATIO else HOT


def state_colour(state: str) -> str:
    """The colour (of Quasar's palette) of a job's state; states on the way to another one are orange."""
    return _STATES.get(state, "orange-9")
