"""Line plots over time, by ECharts. A plot without points is a sentence instead."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from headrace.ui.pages.elements.panels import UNREAD, panel
from headrace.ui.views.colours import LINES
from headrace.ui.views.samples import Points

_GREY, _FAINT = "#8494a4", "#8494a430"
_FEW = 3
"""So few points of a line are drawn as dots, because a line of one point has no length."""


class Chart:
    """A panel with a plot. Names of lines are texts: none is ever a key of the options, which may run as code."""

    def __init__(self, title: str, *, nothing: str, label: str) -> None:
        """label: marks the plot for tests and screen readers."""
        with panel(title):
            self._nothing = ui.label(UNREAD).classes("dim")
            self._chart = ui.echart(_options(), renderer="svg").classes("chart")
            self._chart.props(f'aria-label="{label}"')
        self._chart.set_visibility(False)
        self._sentence = nothing
        self._lines: Mapping[str, Points] = {}

    def show(self, lines: Mapping[str, Points]) -> None:
        """Draws these lines; sends nothing if they are the same."""
        self._nothing.text = self._sentence
        if lines == self._lines:
            return
        self._lines = lines
        has_points = any(lines.values())
        self._nothing.set_visibility(not has_points)
        self._chart.set_visibility(has_points)
        self._chart.options["series"] = [_series(name, points) for name, points in lines.items()]
        self._chart.update()


def _series(name: str, points: Points) -> dict[str, object]:
    return {
        "name": name,
        "type": "line",
        "showSymbol": len(points) < _FEW,
        "symbolSize": 6,
        "lineStyle": {"width": 1.8},
        "data": [list(point) for point in points],
    }


def _options() -> dict[str, object]:
    axis = {"axisLabel": {"color": _GREY, "hideOverlap": True}, "splitLine": {"lineStyle": {"color": _FAINT}}}
    return {
        "animation": False,
        "color": list(LINES),
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 4, "containLabel": True},
        "legend": {"type": "scroll", "top": 0, "left": 0, "textStyle": {"color": _GREY}, "itemHeight": 8},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {"type": "time", **axis},
        "yAxis": {"type": "value", **axis},
        "series": [],
    }
