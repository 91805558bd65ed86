"""`headrace run`: a whole job on this host, in the foreground."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from headrace.cli.arguments import (
    AcceptNewTopic,
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    File,
    Json,
    MaxParallelism,
    OldFinal,
    Rename,
    Set,
    overrides_of,
    renames_of,
)
from headrace.cli.errors import reporting_errors
from headrace.cli.runs.floors import read_floors
from headrace.cli.runs.run_result import Meter, Ran, print_summary, report_failure, require_savepoint
from headrace.cli.signals import handled, leaving_at_once, let_go_of_terminal, write_line
from headrace.core.files.named_file import named_file
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.cli.runs.resumption import Allowed, TakenUp
    from headrace.coordinator.monitoring.values import JobValues
    from headrace.core.settings import Home
    from headrace.core.source_state import AppliedFloor
    from headrace.local.engine.compile import Compiled
    from headrace.local.engine.job import Progress
    from headrace.local.runs.run_page import RunPage
    from headrace.local.runs.runs import RecordedRun
    from headrace.local.runs.slot_run import RunOutcome
    from headrace.processes.spawning import Starter

THREADS_END_WITHIN_S = 8.0
"""How long a run in threads may take to end. A function that hangs cannot be interrupted; Docker kills after 10 s."""


class Stoppable(Protocol):
    """A run, in threads or in slot processes."""

    def stop(self) -> None:
        """Requests the end."""
        ...


@leaving_at_once("ended before anything ran")
@reporting_errors()
def run(
    file: File,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself.")] = None,
    set_: Set = None,
    name: Annotated[
        str | None, typer.Option(help="Run it under another name, with a state of its own. For a YAML file.")
    ] = None,
    from_savepoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Start from this savepoint or checkpoint.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the last run of this pipeline.")] = False,
    savepoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="End with a savepoint in this folder: windows stay open in it.")
    ] = None,
    final: Annotated[
        bool, typer.Option("--drain", help="With --savepoint: set time to its end first: every window fires.")
    ] = False,
    old_final: OldFinal = False,
    floors: Annotated[Path | None, typer.Option(help="Floors of an earlier run, to get the same rows again.")] = None,
    record_floors: Annotated[Path | None, typer.Option(help="Write the floors of this run to this file.")] = None,
    allow_dropped_state: AllowDroppedState = False,
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
    accept_new_topic: AcceptNewTopic = None,
    rename: Rename = None,
    max_parallelism: MaxParallelism = None,
    threads: Annotated[bool, typer.Option("--threads", help="Run all subtasks as threads of this process.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Serve Prometheus metrics at 127.0.0.1:PORT/metrics."),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Also serve the run's page on 127.0.0.1; its address is printed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a pipeline until its sources end or Ctrl-C; progress on stderr, a summary at the end."""
    # parallelism comes from subtasks: polars threads in each of them would only compete for cores
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    starter = None if threads else _own_starter()
    from headrace.cli.runs.resumption import Allowed
    from headrace.local.engine.compile import compile_loaded
    from headrace.local.pipeline_file import load_file

    accepted = tuple(sorted(set(accept_new_topic or ())))
    allowed = Allowed(
        renames_of(rename), allow_dropped_state, allow_drained, allow_lost_output, accepted, max_parallelism
    )
    wish = _Wish(file, from_savepoint, resume, allowed, savepoint, final or old_final, metrics_port, ui)
    _require_fitting(wish, threads=threads)
    overrides = overrides_of(set_, max_parallelism) + ([] if name is None else [f"name={json.dumps(name)}"])
    compiled = compile_loaded(load_file(file, overrides, parallelism))
    if floors is not None:
        wish = replace(wish, floors=read_floors(floors))
    started_s = time.monotonic()
    if starter is None:
        ran = _in_threads(compiled, wish.floors, started_s)
    else:
        ran = _in_slots(compiled, wish, started_s, starter)
    _report(ran, time.monotonic() - started_s, _again(file, name), record_floors, as_json=as_json)
    if savepoint is not None:
        require_savepoint(ran)


def _require_fitting(wish: _Wish, *, threads: bool) -> None:
    """Raises UserError for options that contradict each other."""
    from headrace.core.errors import UserError

    if wish.final and wish.savepoint is None:
        raise UserError("--drain says how to end with a savepoint", remedy="give --savepoint DIR too")
    if threads and (wish.resume or wish.savepoint or wish.from_savepoint):
        raise UserError(
            "--threads keeps no state", remedy="leave it out for --resume, --savepoint and --from-savepoint"
        )
    if threads and wish.metrics_port is not None:
        raise UserError("--threads serves no metrics", remedy="leave it out for --metrics-port")
    if wish.ui:
        _require_page(threads=threads)
    if wish.resume and wish.from_savepoint is not None:
        raise UserError("--resume and --from-savepoint name two places to start from", remedy="give one of them")


def _report(ran: Ran, seconds: float, again: str, record_floors: Path | None, *, as_json: bool) -> None:
    """Raises the run's failure; else writes its floors and prints its end."""
    if ran.failure is not None:
        report_failure(ran, seconds, again, as_json=as_json)
        raise ran.failure
    _finish_floors(ran.floors, record_floors)
    print_summary(ran, seconds, as_json=as_json)
    if ran.given_up:
        typer.echo("no last checkpoint could be taken in time: rows since the one before will be read again", err=True)
    if ran.resumable:
        typer.echo(f"state is kept; go on with: headrace run {again} --resume", err=True)


def _again(file: str, name: str | None) -> str:
    """Returns the pipeline's name on the command line."""
    return file if name is None else f"{file} --name {name}"


@dataclass(frozen=True, slots=True)
class _Wish:
    """The command line's options for a run in slots.

    given     the file as the user named it
    publish   receives values for monitoring; None: the run serves none
    page      the run's page; None: it has none
    """

    given: str
    from_savepoint: str | None
    resume: bool
    allowed: Allowed
    savepoint: str | None
    final: bool
    metrics_port: int | None = None
    ui: bool = False
    floors: tuple[AppliedFloor, ...] = ()
    publish: Callable[[JobValues], None] | None = None
    page: RunPage | None = None

    @property
    def file(self) -> Path:
        """The file, as an absolute path."""
        return named_file(self.given)


def _in_threads(compiled: Compiled, floors: tuple[AppliedFloor, ...], started_s: float) -> Ran:
    from headrace.local.engine.job import JobOptions, LocalJob

    # part of the names of a sink's files, so that two runs never write to the same name
    options = JobOptions(job=f"{compiled.pipeline.name}-{uuid.uuid4().hex[:8]}", floors=floors, watches_data=True)
    job = LocalJob(compiled.physical, options)
    try:
        state = _to_the_end(job, job.run, started_s, within_s=THREADS_END_WITHIN_S)
    except Exception as error:
        progress = job.progress()
        return Ran("FAILED", progress, (), error, ran=progress.rows_in > 0)
    return Ran(state.value, job.progress(), job.applied_floors())


def _own_starter() -> Starter:
    """Returns the starter of slots and the connector host. Called before planning, because planning starts threads."""
    from headrace.coordinator.connector_host.connector_host import PROGRAM as HOST
    from headrace.processes.template.client import own_starter
    from headrace.worker.supervision.slot_process import PROGRAM as SLOT

    return own_starter([SLOT, HOST], imports_too=True)


def _in_slots(compiled: Compiled, wish: _Wish, started_s: float, starter: Starter) -> Ran:
    from headrace.core.settings import Home
    from headrace.local.runs.runs import run_alone

    home = Home.from_environment()
    with (
        closing(starter),
        run_alone(home, compiled.pipeline.name),
        _monitored(wish.metrics_port) as publish,
        _shown(home, wanted=wish.ui) as page,
    ):
        return _alone_in_slots(compiled, replace(wish, publish=publish, page=page), home, started_s, starter)


@contextmanager
def _monitored(port: int | None) -> Iterator[Callable[[JobValues], None] | None]:
    """Serves metrics at a port; returns the function that publishes values there, None without a port."""
    if port is None:
        yield None
        return
    from headrace.local.runs.metrics_server import served

    with served(port) as metrics:
        yield metrics.publish


@contextmanager
def _shown(home: Home, *, wanted: bool) -> Iterator[RunPage | None]:
    """Makes the run's page; its process begins once the run has an address."""
    if not wanted:
        yield None
        return
    from headrace.local.runs.run_page import run_page

    with run_page(home) as page:
        yield page


def _require_page(*, threads: bool) -> None:
    from headrace.cli.cluster.page_extra import require_page_extra
    from headrace.core.errors import UserError

    if threads:
        raise UserError("--threads has no page", remedy="leave it out for --ui")
    require_page_extra()


def _alone_in_slots(compiled: Compiled, wish: _Wish, home: Home, started_s: float, starter: Starter) -> Ran:
    from headrace.core.errors import HeadraceError
    from headrace.local.runs.runs import RecordedRun, forget_if_nothing_kept, forget_run, record_run
    from headrace.local.runs.slot_run import RunOptions, SlotRun
    from headrace.rpc.time_settings import times_from

    name = compiled.pipeline.name
    taken = _taken_up(compiled, wish, home)
    options = RunOptions(
        python_path=(str(wish.file.parent),),
        floors=wish.floors,
        origin=taken.origin,
        resume=taken.job,
        accepted_topics=wish.allowed.new_topics,
        savepoint=wish.savepoint,
        final=wish.final,
        on_values=wish.publish,
        on_served=None if wish.page is None else wish.page.start,
        times=times_from(os.environ),
    )
    job = SlotRun(compiled.pipeline, options, home, starter)
    recorded = RecordedRun(job.job, job.storage, os.getpid(), str(wish.file))
    record_run(home, name, recorded)
    try:
        outcome = _to_the_end(job, job.run, started_s, wish.page)
    except BaseException:
        if taken.job is None:
            with suppress(HeadraceError):
                forget_if_nothing_kept(home, name, recorded)
        raise
    kept = (outcome.cut_short or outcome.failure is not None) and _has_state(outcome, taken, recorded)
    if not kept:
        forget_run(home, name, recorded)
    state = "CANCELED" if outcome.cut_short and outcome.failure is None else outcome.state.value
    return Ran(
        state,
        outcome.progress,
        outcome.floors,
        outcome.failure,
        outcome.ran,
        outcome.savepoint,
        resumable=kept and outcome.savepoint is None,
        given_up=outcome.given_up,
    )


def _has_state(outcome: RunOutcome, taken: TakenUp, recorded: RecordedRun) -> bool:
    """Whether there is a checkpoint. A resumed run that ended before it read its journal knows of none, and must not
    delete the one that it was to resume.
    """
    from headrace.local.runs.runs import has_checkpoint

    return outcome.checkpoint is not None or (taken.job is not None and not outcome.ran and has_checkpoint(recorded))


def _taken_up(compiled: Compiled, wish: _Wish, home: Home) -> TakenUp:
    from headrace.cli.runs.resumption import TakenUp, start_from, take_up, tell_left_behind

    if wish.resume:
        return take_up(home, compiled, str(wish.file), wish.allowed)
    if wish.from_savepoint is not None:
        return start_from(compiled, wish.from_savepoint, wish.allowed)
    tell_left_behind(home, compiled.pipeline.name, wish.given)
    return TakenUp()


Outcome = TypeVar("Outcome")


def _to_the_end(
    job: Stoppable,
    run_it: Callable[[Callable[[Progress], None]], Outcome],
    started_s: float,
    page: RunPage | None = None,
    *,
    within_s: float | None = None,
) -> Outcome:
    """Runs with a progress line. The first Ctrl-C, SIGTERM or SIGHUP ends the job in order. A second Ctrl-C or SIGTERM
    ends the process at once, and so does an end that takes longer than `within_s`."""
    meter = Meter(started_s)
    asked = _EndAsked()
    with handled(asked), _left_if_late(asked, within_s):

        def supervise(progress: Progress) -> None:
            # called here, not in the handler: a handler may interrupt the very lock that `stop` acquires
            if asked.signals:
                job.stop()
            if signal.SIGHUP in asked.signals:
                let_go_of_terminal()
            if page is not None and (news := page.news()) is not None:
                meter.tell(news)
            meter.show(progress)

        try:
            return run_it(supervise)
        finally:
            meter.end()


@dataclass(slots=True)
class _EndAsked:
    """Records signals. The first one requests the end; a second Ctrl-C, or SIGTERM, exits at once."""

    signals: list[int] = field(default_factory=list)
    first: SimpleQueue[int | None] = field(default_factory=SimpleQueue)
    """The first signal. A handler may put into it, whatever it interrupts."""

    def __call__(self, number: int) -> None:
        # one hang-up may send two signals: from the terminal and from the shell
        if self.signals and number != signal.SIGHUP:
            os._exit(128 + number)
        self.signals.append(number)
        self.first.put(number)
        write_line("stopping; Ctrl-C or SIGTERM again leaves at once")


@contextmanager
def _left_if_late(asked: _EndAsked, within_s: float | None) -> Iterator[None]:
    """Inside, the process exits `within_s` after the end was requested. A thread does that: the main thread may close a
    client in a call that does not return, and runs no signal handler there."""
    if within_s is None:
        yield
        return
    ended = threading.Event()

    def leave_if_late() -> None:
        number = asked.first.get()
        if number is not None and not ended.wait(within_s):
            write_line("left: a function, source or sink did not return")
            os._exit(128 + number)

    threading.Thread(target=leave_if_late, name="leave-if-late", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        asked.first.put(None)


def _finish_floors(applied: Sequence[AppliedFloor], record: Path | None) -> None:
    from dataclasses import asdict

    from headrace.core.errors import UserError

    if record is not None:
        try:
            record.write_text(json.dumps([asdict(floor) for floor in applied], indent=1) + "\n")
        except OSError as error:
            raise UserError(f"--record-floors {record} cannot be written: {error.strerror}") from error
    elif applied:
        typer.echo(
            f"{plural(len(applied), 'floor')} took effect where partitions were idle or appeared; "
            "--record-floors PATH keeps them, and --floors PATH gives the same rows again",
            err=True,
        )
