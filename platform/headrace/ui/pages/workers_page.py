"""The workers of the cluster: slots, CPU and memory; those that are on their way; log and stacks of one."""

from __future__ import annotations

import html
from collections.abc import Callable

from nicegui import ui

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import Table, column, facts_html, panel
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.cluster_view import expected_rows, worker_facts, worker_row

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
            # read at once: whoever opens the page of a worker mostly wants to know what it says
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
