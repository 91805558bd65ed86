from __future__ import annotations

from pathlib import Path

from headrace.expr.aggregates.table import AGGREGATES
from headrace.expr.document import document
from headrace.expr.functions.table import FORMS, FUNCTIONS

PAGE = Path(__file__).parents[3] / "docs" / "expressions.md"


def test_the_page_is_up_to_date() -> None:
    remedy = "run `python -m headrace.expr.document > docs/expressions.md`"
    assert PAGE.read_text(encoding="utf-8") == document(), remedy


def test_the_page_names_every_function() -> None:
    text = document()
    assert [name for name in FUNCTIONS if f"| `{name}` |" not in text] == []
    assert [name for name, form in FORMS.items() if f"`{form.signature}`" not in text] == []
    assert [name for name in AGGREGATES if f"`{name}(" not in text] == []
