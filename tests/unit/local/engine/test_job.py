"""Slices of one process: what one sends to another arrives in its mailbox; each opens, ends and closes its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.exchange.mailbox import TaskCancelledError
from headrace.execution.connectors import JobConnectors
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import Discovery, open_linked, slices_of
from headrace.local.engine.subtask_epochs import InputEnded, Reports
from headrace.plan.physical import PhysicalPlan
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.control import SubtaskSnapshot, Trigger
from headrace.worker.slot.slice import Slice, SliceOptions
from support.control.scripted import SCHEMA, Output, Script, ScriptedSink, ScriptedSource
from support.processes.running import WAIT_SECONDS, wait_until


def plan(script: Script, output: Output, *, sources: int, sinks: int) -> PhysicalPlan:
    """`sources` subtasks of a source, rows by hash to `sinks` subtasks of a sink."""
    read = {"memory": {"name": "unused"}, "schema": SCHEMA, "time": {"column": "ts"}, "parallelism": sources}
    write = {"from": "rows", "print": {}, "partition": {"hash": ["i"]}, "parallelism": sinks}
    flow = pipeline_from_dict(
        {"name": "p", "batch": {"max_rows": 5}, "sources": {"rows": read}, "sinks": {"out": write}}
    )
    source, sink = ScriptedSource(script=script, whole=True), ScriptedSink(output=output)
    rows = flow.sources["rows"].model_copy(update={"connector": "scripted", "config": source})
    out = flow.sinks["out"].model_copy(update={"connector": "scripted", "config": sink})
    return compile_pipeline(flow.model_copy(update={"sources": {"rows": rows}, "sinks": {"out": out}})).physical


@dataclass
class Linked:
    """Slices that run, without a job around them."""

    plan: PhysicalPlan
    reports: Reports = field(default_factory=Reports)
    connectors: JobConnectors = field(default_factory=JobConnectors)
    seen: list[SubtaskSnapshot | InputEnded] = field(default_factory=list)
    slices: tuple[Slice, ...] = ()

    def __post_init__(self) -> None:
        self.slices = slices_of(self.plan, SliceOptions("job", 0), self.reports, SystemClock())

    def start(self) -> None:
        opened = self.connectors.open(self.plan, "job")
        open_linked(self.slices)
        Discovery(self.connectors, self.slices, self.reports.wake).begin(opened, 0)
        for part in self.slices:
            part.start(_until_cancelled)

    def trigger(self, epoch: int) -> None:
        for part in self.slices:
            part.tell({"rows": Trigger(epoch)})

    def wait_for(self, kind: type[InputEnded | SubtaskSnapshot]) -> None:
        """Until every subtask has reported that once."""
        subtasks = {(task.name, subtask) for task in self.plan.tasks for subtask in range(task.parallelism)}

        def there() -> bool:
            self.seen += self.reports.take(1)
            return {(each.task, each.subtask) for each in self.seen if isinstance(each, kind)} == subtasks

        wait_until(there, f"not every subtask reported {kind.__name__}")

    def close(self) -> None:
        for part in self.slices:
            part.cancel()
        assert [part.join(WAIT_SECONDS) for part in self.slices] == [[] for _ in self.slices]
        assert [error for part in self.slices for error in part.close()] == []
        self.connectors.close()


def _until_cancelled(_task: str, run: Callable[[], None]) -> None:
    with contextlib.suppress(TaskCancelledError):
        run()


@pytest.fixture
def linked() -> Iterator[Callable[[PhysicalPlan], Linked]]:
    made: list[Linked] = []

    def make(of: PhysicalPlan) -> Linked:
        made.append(Linked(of))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(("sources", "sinks"), [(1, 1), (2, 3), (3, 2)])
def test_rows_and_signals_reach_subtasks_of_other_slices(
    sources: int, sinks: int, linked: Callable[[PhysicalPlan], Linked]
) -> None:
    script, output = Script([[(i, i) for i in range(p, 50, 2)] for p in range(2)], known=2), Output()
    running = linked(plan(script, output, sources=sources, sinks=sinks))
    assert len(running.slices) == max(sources, sinks)
    running.start()
    running.wait_for(InputEnded)
    running.trigger(1)
    running.wait_for(SubtaskSnapshot)
    assert sorted(output.rows) == list(range(50))
    assert output.opened == sinks


def test_a_slice_names_the_threads_that_run_and_waits_no_longer_than_told() -> None:
    door, stuck, output = threading.Event(), threading.Event(), Output()
    calls: list[None] = []

    def wait() -> None:
        stuck.set()
        door.wait(2 * WAIT_SECONDS)

    output.on_write = wait
    running = Linked(plan(Script([[(1, 1)]], known=1), output, sources=1, sinks=1))
    (part,) = running.slices
    assert part.alive == []
    running.start()
    assert stuck.wait(WAIT_SECONDS)
    part.cancel()
    assert part.join(0.2, lambda: calls.append(None)) == ["rows-0"], "one chain"
    assert calls
    assert part.close() == [], "the parts of a thread that runs stay open"
    assert output.closed == 0
    door.set()
    running.close()
    assert part.alive == []
    assert output.closed == 1


def test_what_one_slice_opened_is_closed_when_the_next_does_not_open() -> None:
    output, calls = Output(), [0]

    def second_fails() -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise ExternalError("no writer")

    output.on_open = second_fails
    running = Linked(plan(Script([[(1, 1)]], known=1), output, sources=2, sinks=2))
    with pytest.raises(ExternalError, match="no writer"):
        open_linked(running.slices)
    running.close()
    assert (output.opened, output.closed) == (1, 1)
