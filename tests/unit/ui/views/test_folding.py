"""Folding of large graphs: every node is in one box, and no edge is lost or made up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.models import NodeStatus
from headrace.ui.views.folding import NODES_MAX, folded, load_of_box
from headrace.ui.views.graph import box


def node(name: str, *inputs: str, task: str = "t", busy: float = 0.0, per_s: float = 0.0) -> NodeStatus:
    return NodeStatus(
        node=name, kind="filter", parallelism=1, task=task, inputs=inputs, busy=busy, rows_out_per_s=per_s
    )


def chain(length: int) -> list[NodeStatus]:
    return [node(f"n{at}", *([f"n{at - 1}"] if at else [])) for at in range(length)]


@st.composite
def graphs(draw: st.DrawFn) -> list[NodeStatus]:
    """Nodes in the order of rows, each with inputs before it, in a few tasks."""
    found: list[NodeStatus] = []
    for at in range(draw(st.integers(0, 40))):
        above = draw(st.lists(st.sampled_from([each.node for each in found]), max_size=2, unique=True)) if at else []
        found.append(node(f"n{at}", *above, task=f"t{draw(st.integers(0, 2))}"))
    return found


@given(graphs())
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
