"""Places the nodes of a graph in columns: each edge goes right, and no edge passes behind a box. Pure.

A node's column is its longest path from a source. An edge over several columns gets a place of its own in each column
between, as if a box stood there. Sweeps by barycentres then order the rows of each column, to have few crossings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
                wanted = {cell: _mean([row[each] for each in near[cell]], row[cell]) for cell in cells}
                cells.sort(key=wanted.__getitem__)
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
