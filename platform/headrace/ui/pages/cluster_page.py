"""The overview of the cluster: figures, alarms, jobs."""

from __future__ import annotations

import html
from datetime import UTC, datetime

from nicegui import ui

from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import Table, column, figures_html, panel
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.cluster_view import cluster_view
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
