"""Small parts that all pages are made of. Text that is not of this package is escaped, or set as text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from nicegui import ui

from headrace.ui.views.cluster_view import Row

PHONE_HIDDEN = "hide-phone"
UNREAD = "Not read yet."
"""Stands where rows or a plot will be, until the first document has come; stays where the coordinator refuses it."""


def heading(text: str) -> None:
    """The heading of a panel."""
    ui.html(f"<h2>{html.escape(text)}</h2>", sanitize=False)


def panel(title: str = "") -> ui.element:
    """A box with a heading."""
    box = ui.element("section").classes("panel")
    if title:
        with box:
            heading(title)
    return box


def figures_html(figures: Iterable[tuple[str, str]]) -> str:
    """(label, value) pairs, large."""
    return "".join(
        f'<div class="panel figure"><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>'
        for label, value in figures
    )


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """(label, value) pairs in lines."""
    return "".join(f"<div><span>{html.escape(label)}</span><b>{html.escape(value)}</b></div>" for label, value in facts)


def column(name: str, label: str, *, number: bool = False, phone: bool = True) -> Row:
    """A column of a table. number: right-aligned; phone: whether it is shown on narrow screens."""
    shown: Row = {"name": name, "label": label, "field": name, "align": "right" if number else "left"}
    return shown if phone else shown | {"classes": PHONE_HIDDEN, "headerClasses": PHONE_HIDDEN}


class Table:
    """A table whose rows are replaced, or a sentence where there are none."""

    def __init__(self, columns: Sequence[Row], key: str, *, nothing: str, page_rows: int = 0) -> None:
        """page_rows: rows of one page; 0: all rows are shown."""
        self._rows: Sequence[Row] = ()
        self._sentence = nothing
        self._nothing = ui.label(UNREAD if nothing else "").classes("dim")
        self.element = ui.table(
            rows=[],
            columns=[dict(each) for each in columns],
            row_key=key,
            pagination={"rowsPerPage": page_rows} if page_rows else 0,
        )
        self.element.props("flat dense wrap-cells" + ("" if page_rows else " hide-pagination")).style("width:100%")
        self.element.set_visibility(False)

    def show(self, rows: Sequence[Row], *, nothing: str | None = None) -> None:
        """Replaces the rows; sends nothing if they are the same. nothing: another sentence from now on."""
        self._sentence = self._sentence if nothing is None else nothing
        self._nothing.text = self._sentence
        if rows == self._rows:
            return
        self._rows = rows
        self.element.rows = [dict(each) for each in rows]
        self.element.set_visibility(bool(rows))
        self._nothing.set_visibility(not rows)
