"""The graph of a job: drawing, layout of any graph, folding of large graphs."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.models import NodeStatus
from headrace.ui.views.colours import BUSY, CALM, HOT, WAITING, heat, state_colour
from headrace.ui.views.graph import (
    BOX_HEIGHT,
    BOX_WIDTH,
    NODES_MAX,
    Load,
    box,
    folded,
    graph_view,
    load_of,
    load_of_box,
    placed,
)
from support.suite.properties import weighted

RATIOS = st.floats(0, 1)
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn"]), min_size=1, max_size=60)


@given(NAMES, RATIOS, RATIOS)
def test_a_box_is_well_formed_and_its_bars_stay_inside(name: str, busy: float, backpressured: float) -> None:
    drawn = ElementTree.fromstring(f"<g>{box(name, Load(busy, backpressured, '5 rows/s'))}</g>")
    assert (drawn.findtext("title") or "").startswith(name)
    assert len(drawn.findtext("text[@class='name']") or "") <= 18
    bars = drawn.findall("rect")[-2:]
    filled, waits = ((float(each.attrib["x"]), float(each.attrib["width"])) for each in bars)
    assert filled[0] + filled[1] <= waits[0] + 1
    assert waits[0] + waits[1] <= BOX_WIDTH


def test_markup_in_a_name_is_text() -> None:
    assert "<script" not in box("<script>alert(1)</script>", None)


def test_busy_and_waiting_have_colours_of_their_own() -> None:
    assert [heat(ratio) for ratio in (0, 0.49, 0.5, 0.84, 0.85, 1)] == [CALM, CALM, BUSY, BUSY, HOT, HOT]
    assert WAITING not in {CALM, BUSY, HOT}
    assert (state_colour("RUNNING"), state_colour("FAILED"), state_colour("RESTARTING")) == (
        "green-8",
        "red-8",
        "orange-9",
    )


def test_an_edge_is_drawn_in_both_directions() -> None:
    view = graph_view({"a": [], "b": ["a"], "c": ["a", "b"]})
    assert len(re.findall('class="edge wide"', view.edges)) == len(re.findall('class="edge tall"', view.edges)) == 3
    assert re.search(r"h150", view.edges), "the long edge passes the column of b in a straight line"
    assert "--wz:1.00" in view.style
    wide = {f"n{at}": [f"n{at - 1}"] if at else [] for at in range(40)}
    assert "--wz:0.80" in graph_view(wide).style


def test_a_sink_shows_what_it_receives() -> None:
    status = NodeStatus(node="out", kind="sink", parallelism=1, rows_in_per_s=1200, rows_out_per_s=0)
    assert load_of(status).note == "1.2 k rows/s"
    assert load_of(status.model_copy(update={"kind": "filter", "rows_out_per_s": 3.0})).note == "3 rows/s"


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


def node(name: str, *inputs: str, task: str = "t", busy: float = 0.0, per_s: float = 0.0) -> NodeStatus:
    return NodeStatus(
        node=name, kind="filter", parallelism=1, task=task, inputs=inputs, busy=busy, rows_out_per_s=per_s
    )


def chain(length: int) -> list[NodeStatus]:
    return [node(f"n{at}", *([f"n{at - 1}"] if at else [])) for at in range(length)]


@st.composite
def job_graphs(draw: st.DrawFn) -> list[NodeStatus]:
    """Nodes in the order of rows, each with inputs before it, in a few tasks."""
    found: list[NodeStatus] = []
    for at in range(draw(st.integers(0, 40))):
        above = draw(st.lists(st.sampled_from([each.node for each in found]), max_size=2, unique=True)) if at else []
        found.append(node(f"n{at}", *above, task=f"t{draw(st.integers(0, 2))}"))
    return found


@given(job_graphs())
def test_boxes_divide_the_nodes_and_keep_the_edges(nodes: list[NodeStatus]) -> None:
    graph = folded(nodes)
    assert sorted(each for own in graph.members.values() for each in own) == sorted(each.node for each in nodes)
    edges = {(above, each.node) for each in nodes for above in each.inputs}
    between = {(a, b) for b, above in graph.inputs.items() for a in above}
    assert between == {(graph.box_of(a), graph.box_of(b)) for a, b in edges if graph.box_of(a) != graph.box_of(b)}
    task = {each.node: each.task for each in nodes}
    readers = [a for a, _ in edges]
    for name, own in graph.members.items():
        assert own[0] == name
        assert {task[each] for each in own} == {task[name]}
        # inside of a box rows have one way
        assert all(readers.count(each) == 1 for each in own[:-1])
    if len(nodes) <= NODES_MAX:
        assert len(graph.members) == len(nodes)


def test_a_chain_of_one_task_is_one_box() -> None:
    graph = folded([*chain(NODES_MAX), node("out", f"n{NODES_MAX - 1}", task="other")])
    assert list(graph.members) == ["n0", "out"]
    assert graph.inputs == {"n0": (), "out": ("n0",)}


def test_a_branch_ends_a_chain() -> None:
    last = f"n{NODES_MAX - 1}"
    graph = folded([*chain(NODES_MAX), node("a", last), node("b", last)])
    assert graph.inputs == {"n0": (), "a": ("n0",), "b": ("n0",)}


def test_a_box_is_as_busy_as_its_busiest_node_and_as_fast_as_its_last() -> None:
    load = load_of_box([node("a", busy=0.9, per_s=100.0), node("b", "a", busy=0.1, per_s=5.0)])
    assert (load.busy, load.note) == (0.9, "5 rows/s")


def test_a_folded_box_names_its_nodes() -> None:
    drawn = box("read", None, ("read", "parse", "filter"))
    assert "<title>read → parse → filter</title>" in drawn
    assert ">read +2</text>" in drawn
