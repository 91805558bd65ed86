"""The dialog in front of each action: it says what the action does and what is lost, and wants a name typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.ui.pages.elements.panels import heading


class AskedTwice:
    """A dialog; fields of the action are added in `fields`, before it opens."""

    def __init__(self, title: str, *, consequence: str, name: str, verb: str, danger: bool = False) -> None:
        """name: what has to be typed; verb: the text of the button that acts; danger: output or work is lost."""
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
