"""How jobs end when something goes wrong: the first error is the one that is said, every part is closed, once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headrace.core.errors import ExternalError
from headrace.exchange.mailbox import ChannelBounds
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob, Progress
from headrace.plan.physical import PhysicalPlan
from headrace.spec.reading.read import pipeline_from_dict
from support.control.scripted import SCHEMA, Output, Script, ScriptedSink, ScriptedSource
from support.processes.running import WAIT_SECONDS, wait_until

PARALLELISM = 2
BOUNDS = ChannelBounds(rows_max=1)


def plan(source: ScriptedSource, sink: ScriptedSink, *, interval: str = "none") -> PhysicalPlan:
    """A source, a shuffle, a sink."""
    data = {
        "name": "p",
        "parallelism": PARALLELISM,
        "batch": {"max_rows": 5},
        "checkpoint": {"interval": interval},
        "sources": {"rows": {"memory": {"name": "unused"}, "schema": SCHEMA, "time": {"column": "ts"}}},
        "sinks": {"out": {"from": "rows", "print": {}, "partition": {"hash": ["i"]}}},
    }
    flow = pipeline_from_dict(data)
    rows = flow.sources["rows"].model_copy(update={"connector": "scripted", "config": source})
    out = flow.sinks["out"].model_copy(update={"connector": "scripted", "config": sink})
    return compile_pipeline(flow.model_copy(update={"sources": {"rows": rows}, "sinks": {"out": out}})).physical


def script(rows: int = 50) -> Script:
    return Script([[(i, i) for i in range(p, rows, 2)] for p in range(2)], known=2)


def failing(error: Exception, *, after: int = 0) -> Callable[[], None]:
    """A hook that raises when it has been called `after` times before."""
    calls = [0]

    def hook() -> None:
        calls[0] += 1
        if calls[0] > after:
            raise error

    return hook


def running(names: set[str]) -> set[str]:
    """Which of these threads there are."""
    return names & {each.name for each in threading.enumerate()}


def all_closed(played: Script, output: Output) -> bool:
    return (played.closed, output.closed) == (played.opened, output.opened)


def test_an_error_in_a_writer_is_said_whatever_closing_does() -> None:
    played, output = script(), Output(on_write=failing(ExternalError("first"), after=2))
    output.on_close = failing(RuntimeError("second"))
    with pytest.raises(ExternalError, match="first") as raised:
        LocalJob(plan(ScriptedSource(script=played), ScriptedSink(output=output)), JobOptions(bounds=BOUNDS)).run()
    assert all_closed(played, output)
    assert any("second" in note for note in raised.value.__notes__)
    assert played.committed == []


def test_an_error_in_closing_alone_fails_the_job_and_the_others_are_closed() -> None:
    played, output = script(), Output(on_close=failing(RuntimeError("no")))
    with pytest.raises(RuntimeError, match="no"):
        LocalJob(plan(ScriptedSource(script=played, whole=True), ScriptedSink(output=output))).run()
    assert all_closed(played, output)
    assert sorted(output.rows) == list(range(50))


@pytest.mark.parametrize("opened", [0, 1])
def test_what_is_open_is_closed_when_a_reader_does_not_open(opened: int) -> None:
    played, output = script(), Output()
    source = ScriptedSource(script=played, on_open=failing(ExternalError("no reader"), after=opened))
    with pytest.raises(ExternalError, match="no reader"):
        LocalJob(plan(source, ScriptedSink(output=output))).run()
    assert output.opened == opened + 1, "slice by slice: its writer, then its reader"
    assert all_closed(played, output)


@pytest.mark.parametrize("opened", [0, 1])
def test_what_is_open_is_closed_when_a_writer_does_not_open(opened: int) -> None:
    played, output = script(), Output(on_open=failing(ExternalError("no writer"), after=opened))
    flow = plan(ScriptedSource(script=played), ScriptedSink(output=output))
    with pytest.raises(ExternalError, match="no writer"):
        LocalJob(flow).run()
    assert output.opened == opened
    assert all_closed(played, output)


def test_an_error_of_the_caller_ends_the_job() -> None:
    played, output = script(), Output()
    with pytest.raises(KeyboardInterrupt):
        LocalJob(plan(ScriptedSource(script=played), ScriptedSink(output=output))).run(interrupt)
    assert all_closed(played, output)


def interrupt(_progress: Progress) -> None:
    raise KeyboardInterrupt


def test_a_flush_that_fails_publishes_no_position() -> None:
    played, output = script(), Output(on_flush=failing(ExternalError("not written")))
    played.end()
    with pytest.raises(ExternalError, match="not written"):
        LocalJob(plan(ScriptedSource(script=played), ScriptedSink(output=output), interval="20ms")).run()
    assert played.committed == []
    assert all_closed(played, output)


def test_a_writer_that_does_not_let_go_is_left_behind_and_the_error_said() -> None:
    door, stuck = threading.Event(), threading.Event()

    def wait() -> None:
        stuck.set()
        door.wait()

    played, output = script(), Output(on_write=wait)
    seen: list[tuple[str, ...]] = []

    def fail_once_stuck(progress: Progress) -> None:
        if progress.waiting_for:
            seen.append(progress.waiting_for)
            # they let go, however long it takes them: the grace is for the writers
            wait_until(lambda: not running({"rows-0", "rows-1"}), "a source does not let go")
        elif stuck.is_set():
            raise ExternalError("the caller")

    flow = plan(ScriptedSource(script=played), ScriptedSink(output=output))
    job = LocalJob(flow, JobOptions(bounds=BOUNDS, cancel_grace_ms=300))
    try:
        with pytest.raises(ExternalError, match="the caller") as raised:
            job.run(fail_once_stuck)
        assert any("out-" in note and "was abandoned" in note for note in raised.value.__notes__)
        assert any("out-" in name for names in seen for name in names)
        assert played.closed == played.opened
        assert output.closed < output.opened
    finally:
        door.set()
        wait_until(lambda: not running({"out-0", "out-1"}), "a thread is left")


def test_a_stop_that_comes_after_the_last_row_cancels_nothing() -> None:
    played, output = script(), Output()
    job = LocalJob(plan(ScriptedSource(script=played, whole=True), ScriptedSink(output=output)))
    output.on_flush = job.stop  # every row is read by now
    assert job.run() is JobState.FINISHED
    assert sorted(output.rows) == list(range(50))


def test_a_stop_says_which_sink_it_waits_for_and_ends_when_that_is_done() -> None:
    door, stuck = threading.Event(), threading.Event()

    def wait() -> None:
        stuck.set()
        door.wait()

    played, output = script(), Output(on_flush=wait)
    job = LocalJob(plan(ScriptedSource(script=played), ScriptedSink(output=output)))
    states: list[JobState] = []
    thread = threading.Thread(target=lambda: states.append(job.run()))
    thread.start()
    try:
        wait_until(lambda: len(output.rows) == 50, "rows did not arrive")
        assert job.progress().waiting_for == ()
        job.stop()
        wait_until(lambda: job.progress().waiting_for == ("out",), "it does not say what it waits for")
    finally:
        door.set()
        thread.join(WAIT_SECONDS)
    assert states == [JobState.CANCELED]
    assert all_closed(played, output)
    assert played.committed[-1] in ({0: 25}, {1: 25}, {0: 25, 1: 25})


def test_positions_are_published_only_for_what_is_flushed_and_of_a_source_that_ended_too() -> None:
    """Two sources into one sink: one has ended, the other goes on; an epoch publishes the positions of both."""
    ended, endless, output = script(10), script(10), Output()
    source = {"memory": {"name": "unused"}, "schema": SCHEMA, "time": {"column": "ts"}}
    data = {
        "name": "p",
        "parallelism": 1,
        "checkpoint": {"interval": "20ms"},
        "sources": {"a": source, "b": source},
        "steps": {"u": {"union": ["a", "b"]}},
        "sinks": {"out": {"from": "u", "print": {}}},
    }
    flow = pipeline_from_dict(data)
    configs = {"a": ScriptedSource(script=ended, whole=True), "b": ScriptedSource(script=endless)}
    sources = {
        name: node.model_copy(update={"connector": "scripted", "config": configs[name]})
        for name, node in flow.sources.items()
    }
    sink = flow.sinks["out"].model_copy(update={"connector": "scripted", "config": ScriptedSink(output=output)})
    job = LocalJob(compile_pipeline(flow.model_copy(update={"sources": sources, "sinks": {"out": sink}})).physical)
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        wait_until(lambda: {0: 5, 1: 5} in ended.committed, "the ended source's positions were not published")
        assert output.flushed >= 10
        wait_until(lambda: {0: 5, 1: 5} in endless.committed, "the other's were not")
        assert output.flushed == 20
    finally:
        job.stop()
        thread.join(WAIT_SECONDS)
    assert ended.committed[-1] == {0: 5, 1: 5}
    assert all_closed(ended, Output())
