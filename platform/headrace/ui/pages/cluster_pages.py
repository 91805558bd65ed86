"""The pages of a cluster: its figures, alarms and jobs; its workers, and one worker with its log and stacks."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import UTC, datetime

from nicegui import ui

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import Table, column, facts_html, figures_html, panel
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.cluster_view import cluster_view, expected_rows, worker_facts, worker_row
from headrace.ui.views.colours import state_colour

_JOBS = (
    column("name", "Name"),
    column("state", "State"),
    column("rate", "Rows/s", number=True),
    column("lag", "Lag", number=True, phone=False),
    column("delay", "Watermark behind", number=True, phone=False),
    column("checkpoint", "Last checkpoint", number=True, phone=False),
    column("restarts", "Restarts", number=True, phone=False),
    column("since", "Runs for", number=True, phone=False),
)
_JOBS_OF_A_PAGE = 25
# templates of this package: rows are data of them, never code
_NAME_CELL = """<q-td :props="props"><a :href="'/jobs/' + props.row.id">{{ props.row.name }}</a></q-td>"""
_STATE_CELL = """<q-td :props="props"><q-badge :color="props.row.colour">{{ props.row.state }}</q-badge></q-td>"""


def cluster_page(poller: Poller) -> None:
    """Registers the page."""

    @ui.page("/")
    def jobs() -> None:
        frame, live = Frame(poller, "Jobs", "/"), Live(poller)
        figures = ui.html("", sanitize=False).classes("figures")
        alarms = ui.html("", sanitize=False).classes("notes")
        with panel("Jobs"):
            table = Table(_JOBS, "id", nothing="No job has been submitted yet.", page_rows=_JOBS_OF_A_PAGE)
            table.element.add_slot("body-cell-name", _NAME_CELL)
            table.element.add_slot("body-cell-state", _STATE_CELL)

        def refresh() -> None:
            frame.refresh()
            if poller.age_s is None:
                return
            view = cluster_view(poller.cluster(), poller.figures, datetime.now(UTC))
            figures.content = figures_html(view.figures)
            alarms.content = "".join(f'<div class="note alarm">{html.escape(text)}</div>' for _, text in view.alarms)
            alarms.set_visibility(bool(view.alarms))
            table.show([{**row, "colour": state_colour(str(row["state"]))} for row in view.jobs])

        live.follow(refresh, Want(Topic.CLUSTER))


_WORKERS = (
    column("worker", "Worker"),
    column("host", "Host", phone=False),
    column("pid", "Pid", number=True, phone=False),
    column("slots", "Slots used", number=True),
    column("cpu", "CPU, cores", number=True),
    column("memory", "Memory", number=True),
    column("version", "Version", phone=False),
)
# a template of this package: rows are data of it, never code
_WORKER_CELL = """<q-td :props="props"><a :href="'/workers/' + props.row.worker">{{ props.row.worker }}</a></q-td>"""
_EXPECTED = (column("worker", "Worker"), column("phase", "Phase"), column("reason", "Why"))


def workers_page(poller: Poller) -> None:
    """Registers the page."""

    @ui.page("/workers")
    def workers() -> None:
        frame, live = Frame(poller, "Workers", "/workers"), Live(poller)
        with panel("Workers"):
            table = Table(_WORKERS, "worker", nothing="No worker is registered.")
            table.element.add_slot("body-cell-worker", _WORKER_CELL)
        with panel("On their way"):
            expected = Table(_EXPECTED, "worker", nothing="No worker is being started.")

        def refresh() -> None:
            frame.refresh()
            cluster = poller.cluster()
            if cluster is not None:
                table.show([worker_row(each) for each in cluster.workers])
                expected.show(expected_rows(cluster))

        live.follow(refresh, Want(Topic.CLUSTER))

    @ui.page("/workers/{worker}")
    def one(worker: str) -> None:
        frame, live = Frame(poller, worker, "/workers"), Live(poller)
        with ui.element("div").classes("head"):
            ui.html(f"<h1>{html.escape(worker)}</h1>", sanitize=False)
        facts = ui.html("", sanitize=False).classes("facts panel")
        with panel("Newest lines of its log and of its slots'"):
            log = _Asked(poller.access, "Read again", lambda client: client.worker_logs(worker))
            # read at once: a user who opens the page of a worker mostly wants its log
            ui.timer(0, log.ask, once=True)
        with panel("Stacks of its threads and of its slots'"):
            _Asked(poller.access, "Dump the stacks", lambda client: client.stacks(worker))

        def refresh() -> None:
            frame.refresh()
            facts.content = facts_html(worker_facts(poller.cluster(), worker))

        live.follow(refresh, Want(Topic.CLUSTER))


class _Asked:
    """A button, and what the worker answers."""

    def __init__(self, access: ClusterAccess, button: str, question: Callable[[Client], str]) -> None:
        self._access = access
        self._question = question
        self._button = ui.button(button, on_click=self.ask).props("no-caps outline")
        self._text = ui.label("Not asked yet.").classes("trace q-mt-sm")

    async def ask(self) -> None:
        """Asks, and shows the answer or the error."""
        self._button.disable()
        try:
            self._text.text = await self._access.act(self._question)
        except HeadraceError as error:
            self._text.text = str(error)
        finally:
            self._button.enable()
