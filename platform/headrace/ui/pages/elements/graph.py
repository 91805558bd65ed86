"""The graph of a job, or of a plan: SVG whose boxes are drawn anew when their figures change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nicegui import ui

from headrace.ui.views.colours import BUSY, CALM, HOT, WAITING
from headrace.ui.views.graph import Load, box, graph_view

_LEGEND = "".join(
    f'<span><i style="background:{colour}"></i>{text}</span>'
    for colour, text in (
        (CALM, "busy under 50 %"),
        (BUSY, "50 to 85 %"),
        (HOT, "over 85 %"),
        (WAITING, "waits for room downstream"),
    )
)


class Graph:
    """Made in the current slot. on_pick: called with the node whose box was clicked; None: boxes cannot be picked."""

    def __init__(
        self,
        inputs: Mapping[str, Sequence[str]],
        loads: Mapping[str, Load | None],
        on_pick: Callable[[str], None] | None,
        *,
        members: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """members: box -> the nodes that it stands for; None: each stands for one."""
        self.inputs = inputs
        self._members = members or {}
        view = graph_view(inputs)
        self._boxes: dict[str, ui.html] = {}
        if on_pick is not None:
            ui.html(f'<div class="legend">{_LEGEND}</div>', sanitize=False)
        with ui.element("div").classes("graph"), ui.element("svg").style(view.style):
            ui.html(view.edges, tag="g", sanitize=False)
            for node in inputs:
                # `box` escapes every text
                drawn = ui.html(self._content(node, loads), tag="g", sanitize=False).classes("node")
                drawn.style(view.positions[node].style)
                self._boxes[node] = drawn
                if on_pick is not None:
                    drawn.on("click", partial(_picked, on_pick, node))

    def draw(self, loads: Mapping[str, Load | None], picked: str | None) -> None:
        """Draws the boxes with new figures."""
        for node, drawn in self._boxes.items():
            drawn.content = self._content(node, loads)
            drawn.classes(add="picked") if node == picked else drawn.classes(remove="picked")

    def scroll_to(self, node: str) -> None:
        """Scrolls a graph that is wider than the screen, so that this box is seen."""
        box_id = self._boxes[node].id
        ui.run_javascript(f"getHtmlElement({box_id})?.scrollIntoView({{block: 'nearest', inline: 'center'}})")

    def _content(self, node: str, loads: Mapping[str, Load | None]) -> str:
        return box(node, loads.get(node), self._members.get(node, ()))


def _picked(on_pick: Callable[[str], None], node: str) -> None:
    on_pick(node)
