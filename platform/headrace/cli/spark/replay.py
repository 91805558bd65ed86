"""`headrace replay`: runs a pipeline over a range of its sources, on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import (
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    File,
    Json,
    Rename,
    Set,
    print_json,
    renames_of,
)
from headrace.cli.errors import FAILED, exit_code, reporting_errors
from headrace.cli.runs.floors import read_floors
from headrace.cli.spark.settings import (
    AllowLocalStorage,
    BackEndName,
    Conf,
    DeployMode,
    Master,
    SparkArchives,
    SparkPyFiles,
    Teller,
)
from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from headrace.spark.driver.follow import FollowOutcome
    from headrace.spark.driver.replay import ReplayOutcome
    from headrace.spark.launch.replay import ReplayOptions
    from headrace.spec.pipeline import Pipeline


@reporting_errors()
def replay(
    file: File,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="Begin here: earliest, a time, offsets as JSON. Default: `start:`."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="End here: latest, a time, offsets as JSON, a savepoint's path. Default: `stop:`, else latest.",
        ),
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="End with a savepoint in this folder: windows stay open in it.")
    ] = None,
    final: Annotated[
        bool, typer.Option("--final", help="With --savepoint or --against: close every window first.")
    ] = False,
    from_savepoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Start from this savepoint or checkpoint.")
    ] = None,
    floors: Annotated[Path | None, typer.Option(help="Floors of an earlier run, to get the same rows again.")] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself. Default: as the cluster can.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on live, in increments; the same command goes on where it stood.")
    ] = False,
    trigger_interval: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="With --follow: between two increments. Default: 10s.")
    ] = None,
    increments: Annotated[int | None, typer.Option(min=1, help="With --follow: end after so many.")] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Publish nothing: compare with what a sink has published to this topic."),
    ] = None,
    sink: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --against: which sink, where several write to topics.")
    ] = None,
    against_from: Annotated[
        str | None, typer.Option(metavar="WHERE", help="With --against: where in the topic to begin.")
    ] = None,
    against_until: Annotated[
        str | None, typer.Option(metavar="WHERE", help="With --against: where in the topic to end.")
    ] = None,
    master: Master = None,
    deploy_mode: DeployMode = "client",
    conf: Conf = None,
    py_files: SparkPyFiles = None,
    archives: SparkArchives = None,
    back_end: BackEndName = "rdd",
    allow_local_storage: AllowLocalStorage = False,
    set_: Set = None,
    allow_dropped_state: AllowDroppedState = False,
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
    allow_repeated_output: Annotated[
        bool,
        typer.Option(
            "--allow-repeated-output",
            help="Publish what an earlier run decided on, though a sink may have forgotten what of it it has.",
        ),
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Run nothing: end an unfinished run of this command for good.")
    ] = False,
    rename: Rename = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline over a range of its sources on Spark; its results reach the sinks once."""
    from headrace.api.against import TopicRange
    from headrace.cli.spark.against import replay_against
    from headrace.cli.spark.driver import SentReplay
    from headrace.cli.spark.give_up import give_up_replay
    from headrace.cli.spark.settings import (
        BEGINS_ANEW,
        interruptible,
        one_of,
        quiet_driver,
        settings_of,
        travelling,
    )
    from headrace.client.submission import file_form
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.execution.origin import OriginWish
    from headrace.local.pipeline_file import load_file
    from headrace.spark.cluster.packaging import OWN_CODE, Packages
    from headrace.spark.cluster.spark_submit import CLIENT, CLUSTER
    from headrace.spark.launch.replay import BACK_ENDS, ReplayOptions, run_replay
    from headrace.spec.reading.read import pipeline_from_dict

    quiet_driver()
    started_s = time.monotonic()
    # absolute paths: tasks run in other folders
    pipeline = pipeline_from_dict(file_form(load_file(file, set_ or []).pipeline))
    folder = named_file(file).parent
    packages, chosen = Packages.of(py_files or (), archives or ()), settings_of(conf)
    one_of("--deploy-mode", deploy_mode, (CLIENT, CLUSTER))
    origin = None
    if from_savepoint is not None:
        origin = OriginWish(
            from_savepoint,
            renames_of(rename),
            allow_dropped_state,
            allow_drained,
            allow_lost_output=allow_lost_output,
        )
    options = ReplayOptions(
        begin=from_,
        end=until,
        savepoint=savepoint,
        final=final,
        origin=origin,
        floors=() if floors is None else read_floors(floors),
        parallelism=parallelism,
        master=master,
        conf=chosen,
        back_end=BACK_ENDS[one_of("--back-end", back_end, tuple(BACK_ENDS))],
        python_path=(str(folder), OWN_CODE),
        allow_local_storage=allow_local_storage,
        allow_repeated=allow_repeated_output,
    )
    if give_up:
        give_up_replay(pipeline, options, follow=follow, as_json=as_json)
        return
    if against is not None and follow:
        raise UserError("--against looks at history, --follow goes on live", remedy="give one of them")
    if not follow and (trigger_interval is not None or increments is not None):
        raise UserError("--trigger-interval and --increments say how to follow", remedy="give --follow too")
    if deploy_mode == CLUSTER:
        SentReplay(file, pipeline, options, packages, floors, follow).run()
        return
    teller = Teller()
    with (
        interruptible(teller, BEGINS_ANEW),
        travelling(pipeline, folder, packages, master=master, chosen=chosen) as settings,
    ):
        options = replace(options, conf=settings)
        if against is not None:
            replay_against(pipeline, options, TopicRange(against, against_from, against_until), sink, as_json=as_json)
            return
        with _failures_told(teller, started_s, as_json=as_json):
            if follow:
                _follow(pipeline, options, teller, trigger_interval, increments, as_json=as_json)
                return
            outcome = run_replay(pipeline, options, Home.from_environment(), teller.say, teller.tell)
    _print(outcome, time.monotonic() - started_s, as_json=as_json)


@contextmanager
def _failures_told(teller: Teller, started_s: float, *, as_json: bool) -> Iterator[None]:
    """Reports a failed job: its document, and exit code 1 if it failed while running; an earlier refusal is wrong
    use.
    """
    from headrace.core.errors import ExternalError, UnreachableError, UserError

    try:
        yield
    except (UserError, ExternalError) as error:
        if as_json:
            document = dict.fromkeys(("rows_in", "rows_out", "late", "bad"), 0)
            seconds = round(time.monotonic() - started_s, 3)
            print_json({"state": "FAILED", **document, "seconds": seconds, "savepoint": None, "error": str(error)})
        ran = teller.said and not isinstance(error, UnreachableError)
        teller.say(f"error: {error}")
        raise typer.Exit(FAILED if ran else exit_code(error)) from error


def _follow(
    pipeline: Pipeline,
    options: ReplayOptions,
    teller: Teller,
    trigger_interval: str | None,
    increments: int | None,
    *,
    as_json: bool,
) -> None:
    from headrace.core.config import parse_duration_ms
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.spark.launch.follow import INTERVAL_MS, FollowOptions, run_follow

    started_s = time.monotonic()
    try:
        interval_ms = INTERVAL_MS if trigger_interval is None else parse_duration_ms(trigger_interval)
    except ValueError as cause:
        raise UserError(
            f"--trigger-interval {trigger_interval}: {cause}", remedy="write a length such as 10s"
        ) from cause
    outcome = run_follow(
        pipeline,
        FollowOptions(options, interval_ms, increments_max=increments),
        Home.from_environment(),
        teller.say,
        teller.tell,
    )
    _print(outcome, time.monotonic() - started_s, as_json=as_json)
    if not outcome.finished:
        teller.say("stopped between two increments: the same command goes on from here")


def _print(outcome: ReplayOutcome | FollowOutcome, seconds: float, *, as_json: bool) -> None:
    state = "STOPPED" if getattr(outcome, "finished", True) is False else "FINISHED"
    if as_json:
        print_json(
            {
                "state": state,
                "rows_in": outcome.rows_in,
                "rows_out": outcome.rows_out,
                "late": outcome.late,
                "bad": outcome.bad,
                "seconds": round(seconds, 3),
                "savepoint": outcome.savepoint,
                "job_id": outcome.job,
            }
        )
        return
    typer.echo(
        f"{state}: {outcome.rows_in:,} rows in, {outcome.rows_out:,} out, {outcome.late:,} late, {outcome.bad:,} bad, "
        f"{seconds:.1f} s"
    )
    if outcome.savepoint is not None:
        typer.echo(f"savepoint {outcome.savepoint}")
