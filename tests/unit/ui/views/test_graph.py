"""The drawing of a graph: texts are escaped, bars fit into their boxes, both directions are in one document."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.models import NodeStatus
from headrace.ui.views.colours import BUSY, CALM, HOT, WAITING, heat, state_colour
from headrace.ui.views.graph import BOX_WIDTH, Load, box, graph_view, load_of

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
