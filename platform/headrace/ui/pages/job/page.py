"""The page of a job: overview, checkpoints, failures and log; `output` has the other tabs.

Each tab has its own address. The page builds and polls the open tab only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from nicegui import ui

from headrace.client.models import CheckpointInfo, ExceptionInfo, JobStatus, NodeStatus
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.graph import Graph
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import UNREAD, Table, column, facts_html, panel
from headrace.ui.pages.job.job_frame import JobFrame
from headrace.ui.pages.job.output import JobAudit, JobDeadLetters, JobState, JobTransactions
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.operations import Operations
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.colours import LINES
from headrace.ui.views.graph import Folded, folded, load_of_box
from headrace.ui.views.job_view import (
    ExceptionView,
    busiest_node,
    checkpoint_rows,
    checkpoint_subtask_rows,
    default_epoch,
    durations,
    exception_views,
    node_facts,
    partition_rows,
    sizes,
    subtask_rows,
)
from headrace.ui.views.samples import Points


def job_pages(poller: Poller, operations: Operations) -> None:
    """Registers the pages of jobs."""

    @ui.page("/jobs/{job}")
    def overview(job: str) -> None:
        frame, live = Frame(poller, job, "/"), Live(poller)
        head = JobFrame(operations, job, "")
        body = JobOverview(live, job)

        def refresh() -> None:
            frame.refresh()
            head.show(body.status(), poller.error(body.status_want()), poller.bottleneck(job))
            body.show(body.status())

        live.follow(refresh, body.status_want(), Want(Topic.BOTTLENECK, job))

    @ui.page("/jobs/{job}/{tab}")
    def other(job: str, tab: str) -> None:
        frame, live = Frame(poller, job, "/"), Live(poller)
        status = Want(Topic.STATUS, job)
        head = JobFrame(operations, job, tab)
        show, *wants = _tab(poller, job, tab)

        def refresh() -> None:
            frame.refresh()
            head.show(poller.status(job, None), poller.error(status, *wants))
            show()

        live.follow(refresh, status, *wants)


def _tab(poller: Poller, job: str, tab: str) -> tuple[Callable[[], None], *tuple[Want, ...]]:
    """Builds a tab: how it is drawn anew, and the documents that it wants beside the status."""
    access = poller.access
    match tab:
        case "checkpoints":
            checkpoints = JobCheckpoints()
            return lambda: checkpoints.show(poller.checkpoints(job)), Want(Topic.CHECKPOINTS, job)
        case "exceptions":
            exceptions = JobExceptions()
            return lambda: exceptions.show(poller.exceptions(job)), Want(Topic.EXCEPTIONS, job)
        case "state":
            state = JobState(access, job)
            return (lambda: state.show(poller.status(job, None)),)
        case "transactions":
            transactions = JobTransactions(access, job)
            return (lambda: transactions.show(poller.status(job, None)),)
        case "dead-letters":
            JobDeadLetters(access, job)
        case "audit":
            JobAudit(access, job)
        case "log":
            return (JobLogTail(access, job).show,)
        case _:
            ui.label(f"There is no page {tab!r} of a job.").classes("wrong")
    return (lambda: None,)


_SUBTASKS = (
    column("subtask", "Subtask", number=True),
    column("worker", "Worker", phone=False),
    column("busy", "Busy", number=True),
    column("back", "Waits", number=True),
    column("rate", "Rows/s", number=True),
    column("bytes", "Bytes", number=True, phone=False),
    column("late", "Late", number=True, phone=False),
    column("bad", "Bad", number=True, phone=False),
    column("state", "State", number=True, phone=False),
    column("queued", "Queued", number=True, phone=False),
    column("delay", "Watermark behind", number=True, phone=False),
)
_PARTITIONS = (
    column("partition", "Partition"),
    column("subtask", "Subtask", number=True, phone=False),
    column("position", "Position", number=True, phone=False),
    column("lag", "Lag", number=True),
    column("delay", "Watermark behind", number=True),
)

_NO_SUBTASK = "No subtask of it runs."


class JobOverview:
    """The overview of a job, in the current slot: its graph, the selected node, and plots."""

    def __init__(self, live: Live, job: str) -> None:
        self._live = live
        self._job = job
        self._graph: Graph | None = None
        self._picked: str | None = None
        self._nodes_of_box: tuple[str, ...] = ()
        with panel("Graph") as self._graph_box:
            self._no_graph = ui.label(UNREAD).classes("dim")
        with ui.element("div").classes("two"):
            self._rates = Chart("Rows per second", nothing="No figures of the last 15 minutes.", label="rates")
            self._lags = Chart("Lag per partition, messages", nothing="No source has a lag.", label="lag")
            self._delay = Chart("Watermark behind the clock", nothing="No watermark is known.", label="watermark")
            self._load = Chart("Busiest subtask, percent", nothing="No figures of the last 15 minutes.", label="load")
        with panel() as self._node_box:
            self._chain = ui.row().classes("q-gutter-xs")
            self._node_title = ui.label().style("font-weight:600")
            self._facts = ui.html("", sanitize=False).classes("facts q-mb-sm")
            self._subtasks = Table(_SUBTASKS, "subtask", nothing=_NO_SUBTASK)
            self._partitions = Table(_PARTITIONS, "partition", nothing="")
        self._node_box.set_visibility(False)

    def show(self, status: JobStatus | None) -> None:
        """Draws everything anew."""
        if self._live.poller.age_s is None:
            return
        samples = self._live.poller.samples.of(self._job)
        self._rates.show(samples.rates())
        self._lags.show(samples.lags())
        self._delay.show(samples.delay())
        self._load.show(samples.load())
        if status is None:
            return
        self._no_graph.text = "The job has not begun to run yet."
        if not status.nodes:
            return
        if self._picked is None:
            self._pick(busiest_node(status))
        self._draw_graph(status)
        node = next((each for each in status.nodes if each.node == self._picked), None)
        self._node_box.set_visibility(node is not None)
        if node is not None:
            self._show_node(node)

    def status_want(self) -> Want:
        """The status with the subtasks of the picked node."""
        return Want(Topic.STATUS, self._job, self._picked)

    def status(self) -> JobStatus | None:
        """The newest status, also right after another node was picked."""
        poller = self._live.poller
        return poller.status(self._job, self._picked) or poller.status(self._job, None)

    def _draw_graph(self, status: JobStatus) -> None:
        graph, nodes = folded(status.nodes), {node.node: node for node in status.nodes}
        loads = {box: load_of_box([nodes[each] for each in members]) for box, members in graph.members.items()}
        picked = graph.box_of(self._picked)
        if self._graph is None or self._graph.inputs != graph.inputs:
            self._graph_box.clear()
            with self._graph_box:
                self._graph = Graph(graph.inputs, loads, self._on_pick, members=graph.members)
                if picked is not None:
                    self._graph.scroll_to(picked)
        self._graph.draw(loads, picked)
        self._show_chain(graph, picked)

    def _show_chain(self, graph: Folded, box: str | None) -> None:
        """Shows the nodes of a box that stands for several ones as buttons."""
        nodes = () if box is None else graph.members[box]
        if nodes == self._nodes_of_box:
            return
        self._nodes_of_box = nodes
        self._chain.clear()
        if len(nodes) > 1:
            with self._chain:
                for each in nodes:
                    ui.button(each, on_click=partial(self._on_pick, each)).props("flat dense no-caps")

    def _on_pick(self, node: str) -> None:
        self._pick(node)
        status = self.status()
        if status is not None:
            self.show(status)

    def _pick(self, node: str | None) -> None:
        before = self.status_want()
        self._picked = node
        self._live.want(self.status_want())
        if before != self.status_want() and before.node is not None:
            self._live.drop(before)

    def _show_node(self, node: NodeStatus) -> None:
        self._node_title.text = (
            f"{node.node} ({node.kind}, parallelism {node.parallelism}, task {node.task or node.node})"
        )
        self._facts.content = facts_html(node_facts(node))
        # right after another node was picked, the newest status has the subtasks of the one before
        is_known = self._live.poller.status(self._job, self._picked) is not None
        self._subtasks.show(subtask_rows(node), nothing=_NO_SUBTASK if is_known else UNREAD)
        self._partitions.show(partition_rows(node))


_HISTORY = (
    column("epoch", "#", number=True),
    column("kind", "Kind", phone=False),
    column("status", "Status"),
    column("at", "At (UTC)", phone=False),
    column("took", "Took", number=True),
    column("size", "Size", number=True),
    column("aligned", "Aligned", number=True, phone=False),
    column("slowest", "Slowest subtask", phone=False),
)
_CHECKPOINT_SUBTASKS = (
    column("task", "Task"),
    column("subtask", "Subtask", number=True),
    column("worker", "Worker", phone=False),
    column("took", "Took", number=True),
    column("aligned", "Aligned", number=True, phone=False),
    column("bytes", "Written", number=True),
)

_NO_CHECKPOINT = "There is no checkpoint yet."
_NOT_ACKNOWLEDGED = "No slot has acknowledged it."
_NOT_KNOWN = "Its subtasks are not known: it is older than this coordinator."


class JobCheckpoints:
    """A job's checkpoints, in the current slot: plots, the history, and the subtasks of one checkpoint."""

    def __init__(self) -> None:
        self._found: dict[int, CheckpointInfo] = {}
        with ui.element("div").classes("two"):
            nothing = "No checkpoint is complete yet."
            self._durations = Chart("Duration, seconds", nothing=nothing, label="durations")
            self._sizes = Chart("Size, kB", nothing=nothing, label="sizes")
        with panel("Slowest subtasks"):
            self._select = ui.select([], label="Checkpoint", on_change=self._show_subtasks)
            self._select.props("dense outlined").style("min-width:180px")
            self._about = ui.label().classes("text q-my-sm")
            self._subtasks = Table(_CHECKPOINT_SUBTASKS, "id", nothing=_NO_CHECKPOINT)
        with panel("History"):
            self._history = Table(_HISTORY, "epoch", nothing="There is none yet.", page_rows=15)

    def show(self, checkpoints: tuple[CheckpointInfo, ...] | None) -> None:
        """Draws everything anew."""
        if checkpoints is None:
            return
        self._durations.show(durations(checkpoints))
        self._sizes.show(sizes(checkpoints))
        self._history.show(checkpoint_rows(checkpoints))
        self._found = {each.epoch: each for each in checkpoints}
        epochs = list(self._found)
        if self._select.options != epochs:
            chosen = self._select.value
            self._select.set_options(epochs, value=chosen if chosen in self._found else default_epoch(checkpoints))
        self._show_subtasks()

    def _show_subtasks(self) -> None:
        chosen = self._found.get(self._select.value or 0)
        if chosen is None:
            self._about.text = ""
            self._subtasks.show((), nothing=_NO_CHECKPOINT)
            return
        self._about.text = "\n".join(text for text in (chosen.path, chosen.failure) if text)
        acknowledges = chosen.status in {"in-progress", "failed"}
        self._subtasks.show(checkpoint_subtask_rows(chosen), nothing=_NOT_ACKNOWLEDGED if acknowledges else _NOT_KNOWN)


class JobExceptions:
    """A job's failures, in the current slot, newest first: message, the record's place, remedy, and the trace."""

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


LINES_SHOWN = 300


class JobLogTail:
    """The newest log lines of a job's processes, in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        self._access = access
        self._job = job
        self._position: str | None = None
        self._reading: asyncio.Task[None] | None = None
        with panel("Log"):
            self._wrong = ui.label().classes("wrong")
            self._log = ui.log(max_lines=LINES_SHOWN).classes("log")

    def show(self) -> None:
        """Begins to read on, unless that is under way."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_on())

    async def _read_on(self) -> None:
        try:
            log = await self._access.poll(lambda client: client.log_lines(self._job, LINES_SHOWN, self._position))
        except HeadraceError as error:
            self._wrong.text = str(error)
            return
        self._position, self._wrong.text = log.position, ""
        for line in log.lines[-LINES_SHOWN:]:
            self._log.push(line)


# ---- charts ----------------------------------------------------------------------------------------------------------


_GREY, _FAINT = "#8494a4", "#8494a430"
_FEW = 3
"""So few points of a line are drawn as dots, because a line of one point has no length."""


class Chart:
    """A panel with a line plot over time, by ECharts; without points it is a sentence instead. Names of lines are
    texts: none is ever a key of the options, which may run as code."""

    def __init__(self, title: str, *, nothing: str, label: str) -> None:
        """label: marks the plot for tests and screen readers."""
        with panel(title):
            self._nothing = ui.label(UNREAD).classes("dim")
            self._chart = ui.echart(_options(), renderer="svg").classes("chart")
            self._chart.props(f'aria-label="{label}"')
        self._chart.set_visibility(False)
        self._sentence = nothing
        self._lines: Mapping[str, Points] = {}

    def show(self, lines: Mapping[str, Points]) -> None:
        """Draws these lines; sends nothing if they are the same."""
        self._nothing.text = self._sentence
        if lines == self._lines:
            return
        self._lines = lines
        has_points = any(lines.values())
        self._nothing.set_visibility(not has_points)
        self._chart.set_visibility(has_points)
        self._chart.options["series"] = [_series(name, points) for name, points in lines.items()]
        self._chart.update()


def _series(name: str, points: Points) -> dict[str, object]:
    return {
        "name": name,
        "type": "line",
        "showSymbol": len(points) < _FEW,
        "symbolSize": 6,
        "lineStyle": {"width": 1.8},
        "data": [list(point) for point in points],
    }


def _options() -> dict[str, object]:
    axis = {"axisLabel": {"color": _GREY, "hideOverlap": True}, "splitLine": {"lineStyle": {"color": _FAINT}}}
    return {
        "animation": False,
        "color": list(LINES),
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 4, "containLabel": True},
        "legend": {"type": "scroll", "top": 0, "left": 0, "textStyle": {"color": _GREY}, "itemHeight": 8},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {"type": "time", **axis},
        "yAxis": {"type": "value", **axis},
        "series": [],
    }
