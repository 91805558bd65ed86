"""Small parts that all pages are made of. Text that is not of this package is escaped, or set as text."""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Iterable, Sequence

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


class AskedTwice:
    """A dialog; fields of the action are added in `fields`, before it opens."""

    def __init__(self, title: str, *, consequence: str, name: str, verb: str, danger: bool = False) -> None:
        """name: the user has to type it; verb: the text of the button that acts; danger: output or work is lost."""
        with ui.dialog() as self._dialog, ui.card().classes("dialog"):
            heading(title)
            ui.label(consequence)
            self.fields = ui.column().style("width:100%;gap:4px")
            typed = ui.input(f"Type {name}").props("dense outlined").style("width:100%")
            self._wrong = ui.label().classes("wrong")
            with ui.row().style("width:100%;justify-content:flex-end"):
                ui.button("Keep as it is", on_click=self._dialog.close).props("flat no-caps")
                self._act = ui.button(verb).props(f"no-caps color={'negative' if danger else 'primary'}")
            self._act.bind_enabled_from(typed, "value", lambda value: value == name)

    def open(self, action: Callable[[], Awaitable[object]]) -> None:
        """Shows it. action: called once the name is typed and the button pressed; the dialog closes before."""

        async def act() -> None:
            self._dialog.close()
            await action()

        self._act.on_click(act)
        self._dialog.open()
