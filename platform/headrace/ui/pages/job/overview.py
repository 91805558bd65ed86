"""A job's overview: its graph, the node that is picked, and the plots of the last 15 minutes."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from headrace.client.models import JobStatus, NodeStatus
from headrace.ui.pages.elements.charts import Chart
from headrace.ui.pages.elements.graph import Graph
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import UNREAD, Table, column, facts_html, panel
from headrace.ui.polling.wanted import Topic, Want
from headrace.ui.views.graph import Folded, folded, load_of_box
from headrace.ui.views.job_view import busiest_node, node_facts, partition_rows, subtask_rows

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
    """Made in the current slot."""

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
        found = self.status()
        if found is not None:
            self.show(found)

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
