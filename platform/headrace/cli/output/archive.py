"""`headrace archive`: stores topics' history as Parquet, by an ordinary pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.arguments import Json, OldProperties, both_spellings
from headrace.cli.development.kafka import Brokers, broker_address
from headrace.cli.errors import reporting_errors

_TEMPLATE = """\
name: {name}
parallelism: {parallelism}
checkpoint:
  # each one ends the files under way
  interval: 5m
sources:
  topics:
    kafka:
      brokers: {brokers}
      topics: {topics}
      start: {start}
{more}\
      metadata:
        topic: topic
        partition: partition
        offset: offset
        timestamp: timestamp
        key: key
        headers: headers
    format:
      raw:
        tombstones: keep
    schema:
      value: binary
sinks:
  kept:
    from: topics
    # the files say which offsets do not exist, so a partition's rows must not be spread
    partition: forward
    archive:
      path: {path}
"""


@reporting_errors()
def archive(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC..", help="Topic to archive.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="URL", help="A folder, or a URL such as s3://bucket/archive.")],
    brokers: Brokers = None,
    begin: Annotated[
        str,
        typer.Option("--from", metavar="PLACE", help="archived (where the archive ends), earliest, latest, a time."),
    ] = "archived",
    until: Annotated[
        str | None, typer.Option("--until", metavar="PLACE", help="latest, or a time. Default: until Ctrl-C.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The pipeline's name. Default: archive-TOPIC.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="KEY=VALUE", help="A Kafka client setting; ${VARIABLES} are replaced; repeatable."
        ),
    ] = None,
    old_properties: OldProperties = None,
    parallelism: Annotated[
        int, typer.Option(min=1, help="Number of subtasks; each archives some of the partitions.")
    ] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the last run of this archive.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print the pipeline file, run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Keep what Kafka topics hold as Parquet files, for the Kafka source's `archive:` and for any reader of Parquet."""
    pipeline = name or _name_of(topics)
    text = _TEMPLATE.format(
        name=_quoted(pipeline),
        parallelism=parallelism,
        brokers=_quoted(broker_address(brokers)),
        topics="[" + ", ".join(_quoted(topic) for topic in topics) + "]",
        start=_quoted(begin),
        more=_optional_fields(begin, until, _place(to), both_spellings(properties, old_properties)),
        path=_quoted(_place(to)),
    )
    if show:
        typer.echo(text, nl=False)
        return
    from headrace.cli.runs.run import run

    run(str(_kept_file(pipeline, text, resume=resume)), resume=resume, as_json=as_json)


def _optional_fields(begin: str, until: str | None, place: str, properties: list[str]) -> str:
    from headrace.core.errors import UserError

    lines = []
    if until is not None:
        lines.append(f"stop: {_quoted(until)}")
    if begin == "archived":
        lines.append(f"archive: {_quoted(place)}")
    if properties:
        lines.append("properties:")
    for text in properties:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"--property takes KEY=VALUE, not {text!r}")
        lines.append(f"  {_quoted(key)}: {_quoted(value)}")
    return "".join(f"      {line}\n" for line in lines)


def _kept_file(name: str, text: str, *, resume: bool) -> Path:
    """Returns the pipeline's file in the home, by which the run can be resumed; a resumed run uses the existing one."""
    from headrace.core.errors import ExternalError, UserError
    from headrace.core.files.home_files import make_private_folder
    from headrace.core.settings import Home

    path = Home.from_environment().root / "archives" / f"{Path(name).name}.yaml"
    if resume:
        if not path.is_file():
            raise UserError(f"there is no archive run {name!r} to take up", remedy="leave --resume out to begin anew")
        return path
    try:
        make_private_folder(path.parent)
        path.touch(mode=0o600)
        path.write_text(text)
    except OSError as cause:
        raise ExternalError(f"{path} cannot be written: {cause.strerror}") from cause
    return path


def _name_of(topics: list[str]) -> str:
    import re

    return re.sub(r"[^a-z0-9]+", "-", f"archive-{'-'.join(topics)}".lower())[:60].strip("-")


def _place(given: str) -> str:
    """Returns an absolute path: the job's processes have other working folders."""
    return given if "://" in given else str(Path(given).resolve())


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
