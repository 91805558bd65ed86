"""Any graph: no two boxes overlap, in no direction; every edge goes right, and passes no box but its own two."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.ui.views.graph import BOX_HEIGHT, BOX_WIDTH, graph_view
from headrace.ui.views.layout import placed
from support.suite.properties import weighted


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Up to 25 nodes, which read any of those before them; in any order."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 25)))]
    inputs = {
        name: draw(st.lists(st.sampled_from(names[:at]), max_size=3, unique=True)) if at else []
        for at, name in enumerate(names)
    }
    return {name: inputs[name] for name in draw(st.permutations(names))}


@weighted(10)
@given(graphs())
def test_edges_go_right_and_pass_no_box(graph: dict[str, list[str]]) -> None:
    layout = placed(graph)
    assert set(layout.places) == set(graph)
    assert len(layout.routes) == sum(len(above) for above in graph.values())
    places = {(point.column, point.row) for point in layout.places.values()}
    assert len(places) == len(graph)
    for route in layout.routes:
        assert all(second.column == first.column + 1 for first, second in pairwise(route))
        assert not {(point.column, point.row) for point in route[1:-1]} & places
    assert all(
        0 <= point.column < layout.columns and 0 <= point.row <= layout.rows - 1 for point in layout.places.values()
    )


@weighted(10)
@given(graphs())
def test_no_two_boxes_overlap_in_either_direction(graph: dict[str, list[str]]) -> None:
    positions = graph_view(graph).positions.values()
    for one, other in combinations(positions, 2):
        assert abs(one.wide_x - other.wide_x) >= BOX_WIDTH or abs(one.wide_y - other.wide_y) >= BOX_HEIGHT
        assert abs(one.tall_x - other.tall_x) >= BOX_WIDTH or abs(one.tall_y - other.tall_y) >= BOX_HEIGHT


def test_a_chain_stands_in_one_row_and_a_source_beside_its_reader() -> None:
    layout = placed({"a": [], "b": ["a"], "c": ["b", "late"], "late": []})
    assert [layout.places[name].column for name in "abc"] == [0, 1, 2]
    assert layout.places["late"].column == 1


def test_unknown_inputs_and_cycles_are_left_out() -> None:
    assert len(placed({"a": ["gone"], "b": ["a"]}).routes) == 1
    cycle = placed({"a": ["b"], "b": ["a"], "c": ["c"]})
    assert set(cycle.places) == {"a", "b", "c"}
    assert len(cycle.routes) == 1
    assert placed({}).columns == 0
