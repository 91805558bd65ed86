"""The part that all tabs of a job's page share: its head with the actions, the error, and the links to the tabs."""

from __future__ import annotations

import html
from collections.abc import Callable

from nicegui import ui

from headrace.client.figure_models import Bottleneck
from headrace.client.http import Client
from headrace.client.models import JobStatus, Trigger
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.panels import AskedTwice, facts_html
from headrace.ui.polling.operations import Operation, Operations
from headrace.ui.views.colours import state_colour
from headrace.ui.views.job_view import job_head, verdict_text

TABS = (
    ("Overview", ""),
    ("State", "state"),
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


Show = Callable[[str], object]


class JobActions:
    """The buttons: savepoint, rescale, upgrade, stop and cancel; made in the current slot. Each is asked twice."""

    def __init__(self, operations: Operations, job: str) -> None:
        self._operations = operations
        self._job = job
        self.name = ""
        """The job's name, which has to be typed; set with the first status."""
        self.parallelism = 1
        with ui.element("div").classes("actions") as self.box:
            for text, ask in (
                ("Savepoint", self._ask_savepoint),
                ("Rescale", self._ask_rescale),
                ("Upgrade", self._open_upgrade),
                ("Stop", self._ask_stop),
                ("Cancel", self._ask_cancel),
            ):
                ui.button(text, on_click=ask).props("dense outline no-caps padding='4px 12px'")

    def _ask_savepoint(self) -> None:
        dialog = AskedTwice(
            f"Take a savepoint of {self.name}?",
            consequence="A checkpoint that stays until you delete it. The job runs on.",
            name=self.name,
            verb="Take a savepoint",
        )
        with dialog.fields:
            folder = _text("Folder or URL", hint="Empty: the coordinator's own")

        async def act() -> None:
            directory = folder.value.strip() or None
            await self._run("Savepoint", lambda client: client.savepoint(self._job, directory))

        dialog.open(act)

    def _ask_rescale(self) -> None:
        dialog = AskedTwice(
            f"Rescale {self.name}?",
            consequence="The job takes a checkpoint, stops, and starts again from it. It puts out nothing meanwhile.",
            name=self.name,
            verb="Rescale the job",
        )
        with dialog.fields:
            number = ui.number("Parallelism", value=self.parallelism, min=1, precision=0).props("dense outlined")

        async def act() -> None:
            parallelism = int(number.value or 1)
            await self._run("Rescale", lambda client: client.rescale(self._job, parallelism))

        dialog.open(act)

    def _ask_stop(self) -> None:
        dialog = AskedTwice(
            f"Stop {self.name}?",
            consequence="The job ends with a last checkpoint, or a savepoint. Another job can go on from there.",
            name=self.name,
            verb="Stop the job",
            danger=True,
        )
        with dialog.fields:
            folder = _text("Savepoint in this folder or URL", hint="Empty: a last checkpoint")
            drain = ui.checkbox("Drain: close every window first, for a job that never goes on")

        async def act() -> None:
            directory, drained = folder.value.strip() or None, bool(drain.value)
            await self._run("Stop", lambda client: client.stop(self._job, directory, drain=drained))

        dialog.open(act)

    def _ask_cancel(self) -> None:
        dialog = AskedTwice(
            f"Cancel {self.name}?",
            consequence="The job ends at once, without a checkpoint: what it has not committed is discarded. "
            "Its checkpoints stay.",
            name=self.name,
            verb="Cancel the job",
            danger=True,
        )

        async def act() -> None:
            await self._run("Cancel", lambda client: client.cancel(self._job))

        dialog.open(act)

    def _open_upgrade(self) -> None:
        ui.navigate.to(f"/jobs/{self._job}/upgrade")

    async def _run(self, name: str, begin: Callable[[Client], Trigger]) -> None:
        def action(client: Client, show: Show) -> str:
            done = client.wait_trigger(begin(client), on_look=lambda seen: show(seen.progress or "in progress"))
            return "; ".join(each for each in (f"done: {done.path}" if done.path else "done", done.progress) if each)

        await self._operations.run(self._job, name, action)


def _text(label: str, *, hint: str) -> ui.input:
    return ui.input(label).props(f'dense outlined hint="{hint}"').style("width:100%")
