"""One `headrace replay`: reads the pipeline, decides where its driver runs, runs it, and prints the result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED, exit_code
from headrace.cli.origin_options import OriginOptions
from headrace.cli.row_differences import print_comparison
from headrace.cli.runs.floors import read_floors
from headrace.cli.spark.driver import SentReplay
from headrace.cli.spark.replay_options import Comparison, Following, History, SparkTarget, Work
from headrace.cli.spark.settings import BEGINS_ANEW, Teller, interruptible, quiet_driver, settings_of, travelling
from headrace.client.submission import file_form
from headrace.core.concealing import conceal_error
from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.core.files.named_file import named_file
from headrace.core.settings import Home
from headrace.core.text.plural import plural
from headrace.local.pipeline_file import load_file
from headrace.spark.cluster.packaging import OWN_CODE
from headrace.spark.driver.follow import FollowOutcome
from headrace.spark.driver.replay import ReplayOutcome
from headrace.spark.launch.follow import INTERVAL_MS, FollowOptions, prepare_follow, run_follow
from headrace.spark.launch.replay import ReplayOptions, prepare, run_replay
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict

if TYPE_CHECKING:
    from headrace.api.spark.against import ComparedWithTopic, TopicRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCommand:
    """The arguments of one `headrace replay`.

    file, set_   the pipeline, and its overridden fields
    history      the range that is read; origin: the state to start from
    work         whether history is followed, compared or only published
    target       where it runs on Spark
    started_s    when the command began, by the monotonic clock
    """

    file: str
    set_: list[str]
    history: History
    origin: OriginOptions
    work: Work
    target: SparkTarget
    parallelism: int | None
    allow_repeated_output: bool
    as_json: bool
    started_s: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Runs the pipeline and prints the result. Raises UserError, ExternalError, DataError, typer.Exit."""
        quiet_driver()
        pipeline, options = self._pipeline(), self._options()
        if self.target.on_the_cluster():
            follow = isinstance(self.work, Following)
            SentReplay(self.file, pipeline, options, self.target.packages(), self.history.floors, follow).run()
        else:
            self._run_here(pipeline, options)

    def give_up(self) -> None:
        """Ends an unfinished run of this command, which then cannot be continued. Raises UserError if there is none."""
        quiet_driver()
        follow = isinstance(self.work, Following)
        give_up_replay(self._pipeline(), self._options(), follow=follow, as_json=self.as_json)

    def _run_here(self, pipeline: Pipeline, options: ReplayOptions) -> None:
        teller, folder = Teller(), named_file(self.file).parent
        travels = travelling(pipeline, folder, self.target.packages(), master=options.master, chosen=options.conf)
        with interruptible(teller, BEGINS_ANEW), travels as settings:
            options = replace(options, conf=settings)
            match self.work:
                case Comparison(sink=sink) as comparison:
                    replay_against(pipeline, options, comparison.range(), sink, as_json=self.as_json)
                case Following() as following:
                    with self._failures_reported(teller):
                        self._follow(pipeline, options, teller, following)
                case None:
                    with self._failures_reported(teller):
                        outcome = run_replay(pipeline, options, Home.from_environment(), teller.say, teller.tell)
                    self._print(outcome, "FINISHED")

    def _follow(self, pipeline: Pipeline, options: ReplayOptions, teller: Teller, following: Following) -> None:
        follow = FollowOptions(options, following.interval_ms(INTERVAL_MS), increments_max=following.increments_max)
        outcome = run_follow(pipeline, follow, Home.from_environment(), teller.say, teller.tell)
        self._print(outcome, "FINISHED" if outcome.finished else "STOPPED")
        if not outcome.finished:
            teller.say("stopped between two increments: the same command goes on from here")

    def _pipeline(self) -> Pipeline:
        # with absolute paths: tasks run in other folders
        return pipeline_from_dict(file_form(load_file(self.file, self.set_).pipeline))

    def _options(self) -> ReplayOptions:
        history, target = self.history, self.target
        return ReplayOptions(
            begin=history.begin,
            end=history.end,
            savepoint=history.savepoint,
            final=history.final,
            origin=self.origin.wish(),
            floors=() if history.floors is None else read_floors(history.floors),
            parallelism=self.parallelism,
            master=target.master,
            conf=settings_of(target.conf),
            back_end=target.back_end_name(),
            python_path=(str(named_file(self.file).parent), OWN_CODE),
            allow_local_storage=target.allow_local_storage,
            allow_repeated=self.allow_repeated_output,
        )

    def _seconds(self) -> float:
        return time.monotonic() - self.started_s

    @contextmanager
    def _failures_reported(self, teller: Teller) -> Iterator[None]:
        """Prints the document of a job that failed. The exit code is 1 if it failed while running; an earlier refusal
        is wrong use.
        """
        try:
            yield
        except (UserError, ExternalError) as error:
            conceal_error(error)
            if self.as_json:
                rows = dict.fromkeys(("rows_in", "rows_out", "late", "bad"), 0)
                ended = {"seconds": round(self._seconds(), 3), "savepoint": None, "error": str(error)}
                print_json({"state": "FAILED", **rows, **ended})
            ran = teller.said and not isinstance(error, UnreachableError)
            teller.say(f"error: {error}")
            raise typer.Exit(FAILED if ran else exit_code(error)) from error

    def _print(self, outcome: ReplayOutcome | FollowOutcome, state: str) -> None:
        if self.as_json:
            rows = {
                "rows_in": outcome.rows_in,
                "rows_out": outcome.rows_out,
                "late": outcome.late,
                "bad": outcome.bad,
            }
            ended = {"seconds": round(self._seconds(), 3), "savepoint": outcome.savepoint, "job_id": outcome.job}
            print_json({"state": state, **rows, **ended})
            return
        typer.echo(
            f"{state}: {outcome.rows_in:,} rows in, {outcome.rows_out:,} out, {outcome.late:,} late, "
            f"{outcome.bad:,} bad, {self._seconds():.1f} s",
            err=True,
        )
        if outcome.savepoint is not None:
            typer.echo(f"savepoint {outcome.savepoint}", err=True)


def give_up_replay(pipeline: Pipeline, options: ReplayOptions, *, follow: bool, as_json: bool) -> None:
    """`--give-up`: ends the run that the same command would continue otherwise, and runs nothing.

    Raises UserError if there is none.
    """
    from headrace.checkpoint.paths import job_url
    from headrace.checkpoint.stores.opening import open_store
    from headrace.core.clock import SystemClock
    from headrace.spark.launch.follow import give_up

    home = Home.from_environment()
    prepared = prepare_follow(pipeline, FollowOptions(options), home) if follow else prepare(pipeline, options, home)
    given = give_up(prepared.job, open_store(job_url(prepared.storage, prepared.job)), SystemClock())
    if as_json:
        print_json({"state": "CANCELED", "job_id": given.job, "rows_given_up": given.rows})
        return
    typer.echo(f"CANCELED: {given.job}")
    if given.rows:
        typer.echo(f"{given.rows:,} rows that were decided on stay as they are in the sinks: published, or not")


def replay_against(
    pipeline: Pipeline, options: ReplayOptions, topic: TopicRange, sink: str | None, *, as_json: bool
) -> None:
    """`--against TOPIC`: compares history with the rows that were published live. If they differ, the exit code is 1.

    Raises UserError, ExternalError.
    """
    from headrace.api.spark.against import compare_with_topic
    from headrace.spark.cluster.session import session

    if options.savepoint is not None:
        raise UserError("--against publishes nothing and keeps no state", remedy="leave out --savepoint")
    comparing = replace(options, publish=False, final=False, open_end=not options.final)
    prepared = prepare(pipeline, comparing, Home.from_environment())
    with session(f"headrace replay {pipeline.name}", options.master, options.conf) as spark:
        compared = compare_with_topic(spark, prepared, topic, sink, _say)
    if as_json:
        print_json(_comparison_document(compared, topic.topic))
    else:
        _print_compared(compared, topic.topic, closed=options.final)
    if not compared.same:
        raise typer.Exit(FAILED)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _comparison_document(compared: ComparedWithTopic, topic: str) -> dict[str, object]:
    from headrace.local.comparison.difference_report import comparison_json

    return {
        "topic": topic,
        "sink": compared.sink,
        **comparison_json(compared.rows, compared.update_key),
        "same": compared.same,
        "records": compared.records,
        "unreadable": compared.unreadable,
        "rows_in": compared.rows_in,
        "late": compared.late,
    }


def _print_compared(compared: ComparedWithTopic, topic: str, *, closed: bool) -> None:
    title = f"{compared.sink} and {topic}"
    print_comparison(
        title, compared.rows, missing=f"missing in {topic}", extra=f"only in {topic}", key=compared.update_key
    )
    if compared.unreadable:
        typer.secho(
            f"    {plural(compared.unreadable, 'record')} of {topic} cannot be read as rows of the sink", fg="red"
        )
        for reason in compared.reasons:
            typer.echo(f"      {reason}")
    if not compared.same:
        for line in _explanations(compared, closed=closed):
            typer.echo(line)


def _explanations(compared: ComparedWithTopic, *, closed: bool) -> list[str]:
    lines = ["what may explain it, beside a real difference:"]
    if compared.rows.missing:
        lines.append("  missing: the live job has not come so far yet, or wrote them to another topic")
        if closed:
            lines.append("  missing: --drain closes windows that are still open live: leave it out")
    if compared.rows.extra:
        lines.append("  extra: they are of rows before --from or after --until, or the live job began with other state")
        lines.append("  extra: a row twice is what at-least-once delivery gives after a failure")
    if compared.late:
        lines.append(f"  {plural(compared.late, 'row')} came too late here: with another --from time begins elsewhere")
    lines.append("  idle partitions: what ended their idleness live is told by --floors")
    return lines
