"""What all tabs of a job's page share: its head with the actions, what went wrong, and the links to the tabs."""

from __future__ import annotations

import html

from nicegui import ui

from headrace.client.figure_models import Bottleneck
from headrace.client.models import JobStatus
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.panels import facts_html
from headrace.ui.pages.job.actions import JobActions
from headrace.ui.polling.operations import Operation, Operations
from headrace.ui.views.colours import state_colour
from headrace.ui.views.job_view import job_head, verdict_text

TABS = (
    ("Overview", ""),
    ("Checkpoints", "checkpoints"),
    ("Exceptions", "exceptions"),
    ("Transactions", "transactions"),
    ("Dead letters", "dead-letters"),
    ("Audit", "audit"),
    ("Log", "log"),
)


class JobFrame:
    """Made at the top of a tab, in the current slot."""

    def __init__(self, operations: Operations, job: str, tab: str) -> None:
        self._operations = operations
        self._job = job
        with ui.element("div").classes("head"):
            self._title = ui.html(f"<h1>{html.escape(job)}</h1>", sanitize=False)
            self._state = ui.badge("").props("aria-label=state")
            self._state.set_visibility(False)
            self._actions = JobActions(operations, job)
            self._actions.box.set_visibility(False)
        self._facts = ui.html("", sanitize=False).classes("facts panel")
        self._facts.set_visibility(False)
        self._verdict = ui.label().classes("dim verdict")
        self._notes = ui.html("", sanitize=False).classes("notes")
        self._notes.set_visibility(False)
        with ui.element("nav").classes("tabs"):
            for text, name in TABS:
                path = f"/jobs/{job}/{name}".rstrip("/")
                ui.link(text, path).classes("here" if name == tab else "")

    def show(self, status: JobStatus | None, error: HeadraceError | None, slow: Bottleneck | None = None) -> None:
        """Shows a job's status. error: why there is none, or why another document of the page cannot be read; slow: why
        the job is slow, on the tab that says so."""
        if status is None:
            if error is not None:
                self._show_notes([_note("failure", str(error))])
            return
        head = job_head(status)
        self._title.content = f"<h1>{html.escape(head.name)}</h1>"
        self._state.text = head.state
        self._state.props(f"color={state_colour(head.state)}")
        self._state.set_visibility(True)
        self._actions.name, self._actions.parallelism = head.name, status.parallelism
        self._actions.box.set_visibility(not head.has_ended)
        self._facts.content = facts_html(head.facts)
        self._facts.set_visibility(True)
        self._verdict.text = "" if slow is None else verdict_text(slow)
        self._verdict.set_visibility(bool(self._verdict.text))
        notes = [] if error is None else [_note("failure", str(error))]
        notes += [_note(kind, text) for kind, text in head.notes]
        notes += [
            _note("failure" if each.failed else "message", _told(each)) for each in self._operations.of(self._job)
        ]
        self._show_notes(notes)

    def _show_notes(self, notes: list[str]) -> None:
        self._notes.content = "".join(notes)
        self._notes.set_visibility(bool(notes))


def _told(operation: Operation) -> str:
    return f"{operation.name}: {operation.text}"


def _note(kind: str, text: str) -> str:
    return f'<div class="note {kind}">{html.escape(text)}</div>'
