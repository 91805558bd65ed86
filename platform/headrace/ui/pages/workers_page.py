"""The workers of the cluster: slots, CPU and memory; those that are on their way."""

from __future__ import annotations

from nicegui import ui

from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import Table, column, panel
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.cluster_view import expected_rows, worker_row

_WORKERS = (
    column("worker", "Worker"),
    column("host", "Host", phone=False),
    column("pid", "Pid", number=True, phone=False),
    column("slots", "Slots used", number=True),
    column("cpu", "CPU, cores", number=True),
    column("memory", "Memory", number=True),
    column("version", "Version", phone=False),
)
_EXPECTED = (column("worker", "Worker"), column("phase", "Phase"), column("reason", "Why"))


def workers_page(poller: Poller) -> None:
    """Registers the page."""

    @ui.page("/workers")
    async def workers() -> None:
        frame, live = Frame(poller, "Workers", "/workers"), Live(poller)
        with panel("Workers"):
            table = Table(_WORKERS, "worker", nothing="No worker is registered.")
        with panel("On their way"):
            expected = Table(_EXPECTED, "worker", nothing="No worker is being started.")

        def refresh() -> None:
            frame.refresh()
            cluster = poller.cluster()
            if cluster is not None:
                table.show([worker_row(each) for each in cluster.workers])
                expected.show(expected_rows(cluster))

        await live.follow(refresh, Want(Topic.CLUSTER))
