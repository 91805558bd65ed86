"""The graph of a job as boxes and curves, in two directions: to the right on wide screens, downwards on phones. Pure.

Both directions are in one document: each box carries both positions, and a media query of the style sheet chooses.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.client.models import NodeStatus
from headrace.ui.views.colours import WAITING, heat
from headrace.ui.views.formats import percent_text, rate_text, shortened
from headrace.ui.views.layout import Layout, Point, placed

BOX_WIDTH, BOX_HEIGHT = 150, 58
LABEL_LENGTH = 18
"""Characters of a name that fit into a box."""
_GAP_WIDE, _ROW_WIDE = 34, 16
_GAP_TALL, _ROW_TALL = 30, 12
_MARGIN = 4
WIDE_PIXELS, TALL_PIXELS = 1214, 336
"""Room for a graph on a screen of 1280 and of 390 pixels: a larger one is scaled down to `ZOOM_MIN`, then scrolls."""
ZOOM_MIN = 0.8


@dataclass(frozen=True, slots=True)
class Position:
    """The upper left corner of a box, in pixels, in both directions."""

    wide_x: float
    wide_y: float
    tall_x: float
    tall_y: float

    @property
    def style(self) -> str:
        """CSS variables."""
        return f"--wx:{self.wide_x:g}px;--wy:{self.wide_y:g}px;--tx:{self.tall_x:g}px;--ty:{self.tall_y:g}px"


@dataclass(frozen=True, slots=True)
class GraphView:
    """positions: node -> its box; edges: SVG of all curves; style: CSS variables of the drawing's size."""

    positions: Mapping[str, Position]
    edges: str
    style: str


@dataclass(frozen=True, slots=True)
class Load:
    """What a box shows. ratios: 0 to 1; note: the third line."""

    busy: float
    backpressured: float
    note: str


def graph_view(inputs: Mapping[str, Sequence[str]]) -> GraphView:
    """Draws a graph. inputs: node -> the nodes that it reads."""
    layout = placed(inputs)
    wide_width = layout.columns * (BOX_WIDTH + _GAP_WIDE) - _GAP_WIDE + 2 * _MARGIN
    wide_height = layout.rows * (BOX_HEIGHT + _ROW_WIDE) - _ROW_WIDE + 2 * _MARGIN
    tall_width = layout.rows * (BOX_WIDTH + _ROW_TALL) - _ROW_TALL + 2 * _MARGIN
    tall_height = layout.columns * (BOX_HEIGHT + _GAP_TALL) - _GAP_TALL + 2 * _MARGIN
    return GraphView(
        positions={name: Position(*_wide(point), *_tall(point)) for name, point in layout.places.items()},
        edges=_curves(layout),
        style=(
            f"--ww:{wide_width:g}px;--wh:{wide_height:g}px;--wz:{_zoom(wide_width, WIDE_PIXELS)};"
            f"--tw:{tall_width:g}px;--th:{tall_height:g}px;--tz:{_zoom(tall_width, TALL_PIXELS)}"
        ),
    )


def load_of(node: NodeStatus) -> Load:
    """What the box of a running job's node shows."""
    per_s = node.rows_in_per_s if node.kind == "sink" else node.rows_out_per_s
    return Load(node.busy, node.backpressured, f"{rate_text(per_s)} rows/s")


def box(name: str, load: Load | None, nodes: Sequence[str] = ()) -> str:
    """SVG of a box's content. Every text is escaped.

    load    None: a plan that does not run
    nodes   of a box that stands for several ones
    """
    label = html.escape(shortened(name, LABEL_LENGTH))
    if len(nodes) > 1:
        more = f" +{len(nodes) - 1}"
        label = html.escape(shortened(name, LABEL_LENGTH - len(more)) + more)
        name = " → ".join(nodes)
    frame = f'<rect class="box" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
    text = f'<text class="name" x="13" y="19">{label}</text>'
    if load is None:
        return f"<title>{html.escape(name)}</title>{frame}{text}"
    colour, track = heat(load.busy), BOX_WIDTH - 24
    busy = min(track, track * load.busy)
    waits = min(track - busy, track * load.backpressured)
    title = f"{name}: busy {percent_text(load.busy)}, backpressured {percent_text(load.backpressured)}"
    return (
        f"<title>{html.escape(title)}</title>{frame}"
        f'<rect class="stripe" width="5" height="{BOX_HEIGHT}" rx="2" fill="{colour}"/>{text}'
        f'<text class="sub" x="13" y="36">{html.escape(load.note)}</text>'
        f'<rect class="track" x="13" y="45" width="{track}" height="5" rx="2"/>'
        f'<rect x="13" y="45" width="{busy:.0f}" height="5" rx="2" fill="{colour}"/>'
        f'<rect x="{13 + track - waits:.0f}" y="45" width="{waits:.0f}" height="5" rx="2" fill="{WAITING}"/>'
    )


def _zoom(width: float, room: int) -> str:
    return f"{max(ZOOM_MIN, min(1.0, room / width)) if width else 1:.2f}"


def _wide(point: Point) -> tuple[float, float]:
    return point.column * (BOX_WIDTH + _GAP_WIDE) + _MARGIN, point.row * (BOX_HEIGHT + _ROW_WIDE) + _MARGIN


def _tall(point: Point) -> tuple[float, float]:
    return point.row * (BOX_WIDTH + _ROW_TALL) + _MARGIN, point.column * (BOX_HEIGHT + _GAP_TALL) + _MARGIN


def _curves(layout: Layout) -> str:
    """Curves between columns, and lines through the places that an edge has in columns between."""
    parts = []
    for route in layout.routes:
        wide, tall = "", ""
        for index, (start, end) in enumerate(pairwise(route)):
            (x, y), (to_x, to_y) = _wide(start), _wide(end)
            passes = f"M{x:g},{y + BOX_HEIGHT / 2:g} h{BOX_WIDTH} " if index else ""
            x, y, to_y, bend = x + BOX_WIDTH, y + BOX_HEIGHT / 2, to_y + BOX_HEIGHT / 2, _GAP_WIDE / 2
            wide += f"{passes}M{x:g},{y:g} C{x + bend:g},{y:g} {to_x - bend:g},{to_y:g} {to_x:g},{to_y:g} "
            (x, y), (to_x, to_y) = _tall(start), _tall(end)
            passes = f"M{x + BOX_WIDTH / 2:g},{y:g} v{BOX_HEIGHT} " if index else ""
            x, y, to_x, bend = x + BOX_WIDTH / 2, y + BOX_HEIGHT, to_x + BOX_WIDTH / 2, _GAP_TALL / 2
            tall += f"{passes}M{x:g},{y:g} C{x:g},{y + bend:g} {to_x:g},{to_y - bend:g} {to_x:g},{to_y:g} "
        parts.append(f'<path class="edge wide" d="{wide.strip()}"/><path class="edge tall" d="{tall.strip()}"/>')
    return "".join(parts)
