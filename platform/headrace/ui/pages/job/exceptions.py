"""A job's failures, the newest first: message, the record's place, remedy, and the trace folded."""

from __future__ import annotations

from nicegui import ui

from headrace.client.models import ExceptionInfo
from headrace.ui.pages.elements.panels import UNREAD, facts_html, panel
from headrace.ui.views.exception_view import ExceptionView, exception_views


class JobExceptions:
    """Made in the current slot."""

    def __init__(self) -> None:
        self._shown: tuple[ExceptionView, ...] | None = None
        self._box = ui.element("div").style("width:100%;display:grid;gap:10px")
        with self._box, panel():
            ui.label(UNREAD).classes("dim")

    def show(self, exceptions: tuple[ExceptionInfo, ...] | None) -> None:
        """Draws the failures anew, if there are other ones: an open trace stays open."""
        if exceptions is None:
            return
        views = exception_views(exceptions)
        if views == self._shown:
            return
        self._shown = views
        self._box.clear()
        with self._box:
            if not views:
                with panel():
                    ui.label("The job has not failed.").classes("dim")
            for view in views:
                _failure(view)


def _failure(view: ExceptionView) -> None:
    with panel():
        ui.label(view.at).classes("dim")
        ui.label(view.message).classes("wrong")
        ui.html(facts_html(view.where), sanitize=False).classes("facts q-my-sm")
        if view.remedy:
            ui.label(view.remedy).style("white-space:pre-wrap")
        if view.trace:
            with ui.expansion("Trace").props("dense"):
                ui.label(view.trace).classes("trace")
