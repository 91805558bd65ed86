"""An offset into a scalar's text is a place in the file, however the scalar is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Location
from headrace.spec.reading.locations import Locations, Plain
from headrace.spec.reading.variables import Variables
from headrace.spec.reading.yaml_tree import compose
from support.suite.properties import weighted

WORD = st.text("abcxyz()+*'=", min_size=1, max_size=6)
LINES = st.lists(st.lists(WORD, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=3)
STYLES = ("plain", "single", "double", "literal", "folded")


def written(lines: list[str], style: str) -> str:
    """The lines as one YAML value; a plain or quoted value over lines folds into spaces."""
    folded = "\n      ".join(lines)
    match style:
        case "plain":
            return "(" + folded
        case "single":
            return "'" + folded.replace("'", "''") + "'"
        case "double":
            return '"' + folded + '"'
        case "literal":
            return "|\n      " + folded
        case _:
            return ">-\n      " + folded


@weighted(2)
@given(LINES, st.sampled_from(STYLES))
def test_every_character_is_found(lines: list[str], style: str) -> None:
    source = f"a:\n  b:\n    c: {written(lines, style)}\n"
    tree = compose(source, "f")
    assert tree.root is not None and not tree.flaws
    locations = Locations(Location("f", 1, 1))
    data = Plain(Variables({}), locations).data(tree.root)
    assert isinstance(data, dict)
    text = data["a"]["b"]["c"]

    for offset, char in enumerate(text):
        place = locations.locate_in(("a", "b", "c"), offset)
        if not char.isspace():
            assert source.splitlines()[place.line - 1][place.column - 1] == char
