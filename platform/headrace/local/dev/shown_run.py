"""Runs a pipeline in this process with its rows shown, and with nothing written unless that is wanted.

State is in memory, sources commit no offsets, and the job's name is its own: nothing of another run is touched.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import orjson
import polars as pl

from headrace.core.batch import OP, visible_columns
from headrace.core.text.row_text import json_row
from headrace.local.engine.collect_sink import CollectSink
from headrace.local.engine.compile import compile_loaded, compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob, Progress
from headrace.local.engine.quiet_source import quiet_source
from headrace.local.pipeline_file import Loaded
from headrace.operators.operator import OnError
from headrace.plan.error_policy import policy_of
from headrace.spec.fields import DeadLetter
from headrace.spec.pipeline import Pipeline, SinkNode

_SECOND_S = 1.0


@dataclass(slots=True)
class RowBudget:
    """How many rows of one sink are shown: at most `rows_per_s` in a second. `left_out`: rows since the last `settle`
    that were not shown."""

    rows_per_s: int
    left_out: int = 0
    _since_s: float = 0.0
    _shown: int = 0

    def take(self, rows: int, now_s: float) -> int:
        """Returns how many of these rows are shown, the first ones of them."""
        if now_s - self._since_s >= _SECOND_S:
            self._since_s, self._shown = now_s, 0
        shown = min(rows, self.rows_per_s - self._shown)
        self._shown += shown
        self.left_out += rows - shown
        return shown

    def settle(self, now_s: float) -> int:
        """Returns the number of rows that were left out, once a second is over; 0 before, or if there are none."""
        if not self.left_out or now_s - self._since_s < _SECOND_S:
            return 0
        count, self.left_out = self.left_out, 0
        return count


class ShownRun:
    """One run. `run` blocks; `stop` may be called by a signal handler."""

    def __init__(self, loaded: Loaded, *, rows_per_s: int, write: bool) -> None:
        """write: the file's sinks are opened, too. Raises InvalidPipelineError with every problem."""
        compile_loaded(loaded)
        self._screen = _Screen(rows_per_s)
        shown = _shown(loaded.pipeline, self._screen, write=write)
        job = f"{loaded.pipeline.name}-dev-{uuid.uuid4().hex[:8]}"
        self._job = LocalJob(compile_pipeline(shown).physical, JobOptions(job=job, watches_data=True))

    def stop(self) -> None:
        """Requests the end."""
        self._job.stop()

    def run(self, on_progress: Callable[[Progress], None]) -> tuple[JobState, Progress]:
        """Runs until the sources end or `stop`. Raises the first error of a subtask."""

        def supervise(progress: Progress) -> None:
            self._screen.settle()
            on_progress(progress)

        try:
            state = self._job.run(supervise)
        finally:
            self._screen.end()
        return state, self._job.progress()


def _shown(pipeline: Pipeline, screen: _Screen, *, write: bool) -> Pipeline:
    """The pipeline with a sink on the screen for each of its sinks, and for each dead letter."""
    sources = {
        name: node.model_copy(update={"config": quiet_source(node.config), "on_error": policy_of(node.on_error)})
        for name, node in pipeline.sources.items()
    }
    steps = {
        name: node.model_copy(update={"on_error": policy_of(node.on_error)}) for name, node in pipeline.steps.items()
    }
    sinks = {
        name: node.model_copy(update={"on_error": policy_of(node.on_error)})
        for name, node in (pipeline.sinks.items() if write else ())
    }
    taken = {*sources, *steps, *pipeline.sinks}
    for name, node in pipeline.sinks.items():
        # in place of a sink it has the sink's name: another node may read its output `bad`, which stays empty
        sinks[_free(name, taken) if write else name] = SinkNode(
            from_=node.from_,
            connector="collect",
            config=CollectSink(collection=_ShownSink(screen, name)),
            parallelism=node.parallelism,
            partition=node.partition,
            on_error=OnError.FAIL if write else policy_of(node.on_error),
        )
    rules = {name: source.on_error for name, source in pipeline.sources.items()}
    rules |= {name: step.on_error for name, step in pipeline.steps.items()}
    rules |= {name: sink.on_error for name, sink in pipeline.sinks.items()}
    for name, rule in rules.items():
        if isinstance(rule, DeadLetter):
            bad = f"{name}.bad"
            sinks[_free(f"{name}_bad", taken)] = SinkNode(
                from_=bad, connector="collect", config=CollectSink(collection=_ShownSink(screen, bad))
            )
    return pipeline.model_copy(update={"sources": sources, "steps": steps, "sinks": sinks})


def _free(name: str, taken: set[str]) -> str:
    """A name that no node has; adds it to `taken`."""
    chosen = next(each for n in range(len(taken) + 1) if (each := f"{name}_shown_{n}") not in taken)
    taken.add(chosen)
    return chosen


class _Screen:
    """Standard output, for the rows of all sinks. Used by the threads of all subtasks."""

    def __init__(self, rows_per_s: int) -> None:
        self._rows_per_s = rows_per_s
        self._budgets: dict[str, RowBudget] = {}
        self._lock = threading.Lock()

    def show(self, name: str, rows: pl.DataFrame) -> None:
        """Prints rows, up to the budget of this name."""
        with self._lock:
            budget = self._budgets.setdefault(name, RowBudget(self._rows_per_s))
            self._tell_left_out(name, budget)
            shown = rows.head(budget.take(rows.height, time.monotonic()))
            deleted = shown.get_column(OP).fill_null(value=False) if OP in shown.columns else [False] * shown.height
            visible = shown.select(visible_columns(shown)).to_dicts()
            for row, gone in zip(visible, deleted, strict=True):
                mark = "- " if gone else ""
                sys.stdout.write(f"{name}  {mark}{orjson.dumps(json_row(row)).decode()}\n")
            sys.stdout.flush()

    def settle(self) -> None:
        """Prints how many rows were left out, once a second is over."""
        with self._lock:
            for name, budget in self._budgets.items():
                self._tell_left_out(name, budget)

    def end(self) -> None:
        """Prints how many rows were left out until now."""
        with self._lock:
            for name, budget in self._budgets.items():
                self._print_left_out(name, budget.left_out)
                budget.left_out = 0

    def _tell_left_out(self, name: str, budget: RowBudget) -> None:
        self._print_left_out(name, budget.settle(time.monotonic()))

    def _print_left_out(self, name: str, rows: int) -> None:
        if rows:
            sys.stdout.write(f"{name}  .. and {rows:,} more\n")
            sys.stdout.flush()


class _ShownSink:
    """The rows of one sink."""

    def __init__(self, screen: _Screen, name: str) -> None:
        self._screen, self._name = screen, name

    def add(self, batch: pl.DataFrame) -> None:
        """Shows a batch."""
        if batch.height:
            self._screen.show(self._name, batch)
