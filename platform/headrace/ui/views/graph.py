"""The graph of a job as boxes and curves, in two directions: to the right on wide screens, downwards on phones. Pure.

Both directions are in one document: each box carries both positions, and a media query of the style sheet chooses.
`placed` lays a graph out; `folded` shows each chain of a large graph as one box.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.client.models import NodeStatus
from headrace.ui.views.colours import WAITING, heat
from headrace.ui.views.formats import percent_text, rate_text, shortened

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
    """The content of a box. ratios: 0 to 1; note: the third line."""

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
    """The content of the box of a running job's node."""
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


# ---- layout ----------------------------------------------------------------------------------------------------------
#
# Nodes stand in columns: each edge goes right, and no edge passes behind a box. A node's column is its longest path
# from a source. An edge over several columns gets a place of its own in each column between, as if a box stood there.
# Sweeps by barycentres then order the rows of each column, to have few crossings.

_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the grid. row: may be a fraction, because short columns stand in the middle."""

    column: int
    row: float


@dataclass(frozen=True, slots=True)
class Layout:
    """places: of nodes; routes: the points of each edge, from its node to the next one."""

    places: Mapping[str, Point]
    routes: tuple[tuple[Point, ...], ...]
    columns: int
    rows: float


@dataclass(slots=True)
class _Grid:
    """Cells are nodes, and the places of long edges. inputs: cell -> the cells in the column before it."""

    column: dict[str, int]
    inputs: dict[str, list[str]]

    def row_of_cells(self) -> dict[str, float]:
        """Cell -> its row."""
        readers: dict[str, list[str]] = {cell: [] for cell in self.inputs}
        for cell, above in self.inputs.items():
            for each in above:
                readers[each].append(cell)
        columns = [
            [cell for cell in self.inputs if self.column[cell] == k] for k in range(max(self.column.values()) + 1)
        ]
        row = {cell: _centred(index, len(cells)) for cells in columns for index, cell in enumerate(cells)}
        for sweep in range(_SWEEPS):
            near, order = (self.inputs, columns) if sweep % 2 == 0 else (readers, columns[::-1])
            for cells in order:
                positions = {cell: _mean([row[each] for each in near[cell]], row[cell]) for cell in cells}
                cells.sort(key=positions.__getitem__)
                row.update({cell: _centred(index, len(cells)) for index, cell in enumerate(cells)})
        return row


def placed(inputs: Mapping[str, Sequence[str]]) -> Layout:
    """Lays out a graph. inputs: node -> the nodes that it reads; unknown ones and those of a cycle count as none."""
    if not inputs:
        return Layout({}, (), 0, 0)
    edges = _acyclic(inputs)
    grid = _Grid(_columns(edges), {name: [] for name in edges})
    routes = [_route(grid, above, name) for name, own in edges.items() for above in own]
    row = grid.row_of_cells()
    least = min(row.values())
    points = {cell: Point(grid.column[cell], row[cell] - least) for cell in row}
    return Layout(
        places={name: points[name] for name in inputs},
        routes=tuple(tuple(points[cell] for cell in route) for route in routes),
        columns=max(grid.column.values()) + 1,
        rows=max(row.values()) - least + 1,
    )


def _acyclic(inputs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The nodes in an order in which each follows its inputs, with the inputs that come before it."""
    ordered: dict[str, list[str]] = {}
    left = {name: [each for each in dict.fromkeys(own) if each in inputs] for name, own in inputs.items()}
    while left:
        ready = [name for name, own in left.items() if all(each in ordered for each in own)]
        for name in ready or [next(iter(left))]:
            ordered[name] = [each for each in left.pop(name) if each in ordered]
    return ordered


def _columns(edges: Mapping[str, Sequence[str]]) -> dict[str, int]:
    column: dict[str, int] = {}
    for name, above in edges.items():
        column[name] = max((column[each] + 1 for each in above), default=0)
    for name, above in edges.items():
        readers = [column[each] for each, own in edges.items() if name in own]
        if not above and readers:
            column[name] = min(readers) - 1  # a source stands beside its first reader
    return column


def _route(grid: _Grid, start: str, end: str) -> list[str]:
    """The cells of an edge; adds those between its nodes to the grid."""
    route = [start]
    for column in range(grid.column[start] + 1, grid.column[end]):
        cell = f"{start}\n{end}\n{column}"  # no name of a node holds a line break
        grid.column[cell], grid.inputs[cell] = column, [route[-1]]
        route.append(cell)
    grid.inputs[end].append(route[-1])
    return [*route, end]


def _centred(index: int, count: int) -> float:
    return index - (count - 1) / 2


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


# ---- folding ---------------------------------------------------------------------------------------------------------
#
# A chain is nodes of one task that follow each other without a branch: rows pass through them in one thread.

NODES_MAX = 20
"""A graph of more nodes is folded."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A graph of boxes; each is called as its first node.

    inputs    box -> the boxes that it reads
    members   box -> its nodes, in the order of the rows
    """

    inputs: Mapping[str, tuple[str, ...]]
    members: Mapping[str, tuple[str, ...]]

    def box_of(self, node: str | None) -> str | None:
        """The box that shows a node; None: none does."""
        return next((box for box, nodes in self.members.items() if node in nodes), None)

    @property
    def labels(self) -> Mapping[str, str]:
        """Box -> its nodes as text."""
        return {box: " → ".join(nodes) for box, nodes in self.members.items()}


def folded(nodes: Sequence[NodeStatus]) -> Folded:
    """Returns the graph, with each chain in one box if there are more than `NODES_MAX` nodes."""
    box = {each.node: each.node for each in nodes}
    if len(nodes) > NODES_MAX:
        _fold(nodes, box)
    members: dict[str, list[str]] = {}
    for each in nodes:
        members.setdefault(box[each.node], []).append(each.node)
    inputs: dict[str, dict[str, None]] = {name: {} for name in members}
    for each in nodes:
        own = box[each.node]
        inputs[own].update({box[above]: None for above in each.inputs if box.get(above, own) != own})
    return Folded(
        {name: tuple(above) for name, above in inputs.items()},
        {name: tuple(own) for name, own in members.items()},
    )


def _fold(nodes: Sequence[NodeStatus], box: dict[str, str]) -> None:
    """Moves each node that continues a chain into the box of the node before it. `nodes` come in the order of rows."""
    task = {each.node: each.task for each in nodes}
    readers = Counter(above for each in nodes for above in each.inputs)
    for each in nodes:
        if len(each.inputs) != 1:
            continue
        (above,) = each.inputs
        if readers[above] == 1 and each.task and task.get(above) == each.task:
            box[each.node] = box[above]


def load_of_box(nodes: Sequence[NodeStatus]) -> Load:
    """The content of the box of a chain: its busiest node, and the rate at its end."""
    loads = [load_of(each) for each in nodes]
    return Load(max(each.busy for each in loads), max(each.backpressured for each in loads), loads[-1].note)
