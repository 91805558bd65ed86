"""A job's checkpoints: plots of duration and size, the history, and the subtasks of one checkpoint, slowest first."""

from __future__ import annotations

from nicegui import ui

from headrace.client.models import CheckpointInfo
from headrace.ui.pages.elements.charts import Chart
from headrace.ui.pages.elements.panels import Table, column, panel
from headrace.ui.views.checkpoint_view import checkpoint_rows, default_epoch, durations, sizes, subtask_rows

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
_SUBTASKS = (
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
    """Made in the current slot."""

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
            self._subtasks = Table(_SUBTASKS, "id", nothing=_NO_CHECKPOINT)
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
        self._subtasks.show(subtask_rows(chosen), nothing=_NOT_ACKNOWLEDGED if acknowledges else _NOT_KNOWN)
