"""`headrace replay --against TOPIC`: compares history with the rows that were published live."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED
from headrace.cli.row_differences import print_comparison
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.api.spark.against import ComparedWithTopic, TopicRange
    from headrace.spark.launch.replay import ReplayOptions
    from headrace.spec.pipeline import Pipeline


def replay_against(
    pipeline: Pipeline, options: ReplayOptions, wanted: TopicRange, sink: str | None, *, as_json: bool
) -> None:
    """Compares, and ends the command: with exit code 1 if there is a difference. Raises UserError, ExternalError."""
    from headrace.api.spark.against import compare_with_topic
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.spark.cluster.session import session
    from headrace.spark.launch.replay import prepare

    if options.savepoint is not None:
        raise UserError("--against publishes nothing and keeps no state", remedy="leave out --savepoint")
    looking = replace(options, publish=False, final=False, open_end=not options.final)
    prepared = prepare(pipeline, looking, Home.from_environment())
    with session(f"headrace replay {pipeline.name}", options.master, options.conf) as spark:
        compared = compare_with_topic(spark, prepared, wanted, sink, _say)
    if as_json:
        print_json(_document(compared, wanted.topic))
    else:
        _print(compared, wanted.topic, closed=options.final)
    if not compared.same:
        raise typer.Exit(FAILED)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _document(compared: ComparedWithTopic, topic: str) -> dict[str, object]:
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


def _print(compared: ComparedWithTopic, topic: str, *, closed: bool) -> None:
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
