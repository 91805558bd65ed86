"""`headrace dead-letters`: lists diverted messages and rows, and sends them again.

The coordinator reads those of a JOB, because it has the job's secrets; this process reads those of a FILE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from headrace.cli.arguments import Coordinator, Json, Set, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.output_models import DeadLetterList, DeadLettersRequest, Redriven, RedriveRequest
    from headrace.coordinator.connector_host.pipeline_letters import PipelineLetters

app = typer.Typer(
    name="dead-letters",
    help="Messages and rows that could not be processed and were kept: list them, send them again.",
    no_args_is_help=True,
)

HEAD = ("NODE", "WRITTEN", "PLACE", "ORIGIN", "REASON", "VALUE", "BYTES")
VALUE_SHOWN = 60

JobOrFile = Annotated[
    str,
    typer.Argument(
        metavar="JOB|FILE", help="A job of a cluster, or a pipeline (.yaml, or module.py[:name]).", show_default=False
    ),
]


@app.command("list", short_help="the newest dead letters")
@reporting_errors()
def list_(
    job: JobOrFile,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only of this source or step.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Number of the newest ones.")] = 20,
    overrides: Set = None,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """List the newest dead letters: where they lie, where they came from, why they are there."""
    from headrace.client.output_models import DeadLettersRequest

    with _desk(job, overrides, coordinator) as desk:
        found = desk.letters(DeadLettersRequest(node=node, limit=limit))
    letters = found.letters[-limit:]
    if as_json:
        print_json({"letters": [each.model_dump(mode="json") for each in letters]})
    elif not letters:
        typer.echo("no dead letters", err=True)
    else:
        from headrace.cli.jobs.jobs import time_text

        rows = [
            (
                each.node,
                time_text(each.at),
                f"{each.topic}[{each.partition}] offset {each.offset}",
                each.origin or "-",
                each.reason or "-",
                _one_line(each.value),
                f"{each.bytes:,}",
            )
            for each in letters
        ]
        print_table(HEAD, rows, left=6)


@app.command("redrive", short_help="send dead letters again, each once")
@reporting_errors()
def redrive(
    job: JobOrFile,
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="The source or step that could not process them.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Default: the topic that each came from.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send them. Default: only print what would be sent.")] = False,
    overrides: Set = None,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again, as they came: key, value and partition. What was sent once is not sent a second time.

    Letters of a source go back to its topic, or to --to. Letters of a step are rows as JSON, not the source's messages:
    they need --to, a topic that a source of its own reads; sent back they would pass all other steps once more.
    """
    from headrace.client.output_models import RedriveRequest

    sent: Counter[str] = Counter()
    empty = 0
    with _desk(job, overrides, coordinator) as desk:
        more = True
        while more:
            done = desk.redrive(RedriveRequest(node=node, to=to, yes=yes))
            sent.update(done.to)
            empty += done.empty
            # a dry run moves nothing: repeated, it would return the same letters
            more = done.more and yes
    rest = done.more
    if as_json:
        print_json({"node": node, "to": dict(sent), "rows": sent.total(), "done": yes, "more": rest, "empty": empty})
        return
    for topic, rows in sorted(sent.items()):
        typer.echo(
            f"{topic}: {plural(rows, 'letter')} {'sent' if yes else 'would be sent'}{' and more' if rest else ''}"
        )
    if empty:
        typer.echo(
            f"{plural(empty, 'letter')} without content passed over: `dead-letters list` shows where they came from",
            err=True,
        )
    if not sent:
        typer.echo("nothing waits to be sent", err=True)
    elif not yes:
        typer.echo("--yes sends them", err=True)


class _Desk(Protocol):
    """Reads and resends dead letters."""

    def letters(self, request: DeadLettersRequest) -> DeadLetterList: ...

    def redrive(self, request: RedriveRequest) -> Redriven: ...


class _JobDesk:
    """The coordinator of a job."""

    def __init__(self, client: Client, job: str) -> None:
        self._client, self._job = client, job

    def letters(self, request: DeadLettersRequest) -> DeadLetterList:
        return self._client.dead_letters(self._job, request)

    def redrive(self, request: RedriveRequest) -> Redriven:
        return self._client.redrive(self._job, request)


class _FileDesk:
    """Of a pipeline file, read and resent by this process."""

    def __init__(self, letters: PipelineLetters) -> None:
        self._letters = letters

    def letters(self, request: DeadLettersRequest) -> DeadLetterList:
        return self._letters.newest(request.node, request.limit)

    def redrive(self, request: RedriveRequest) -> Redriven:
        return self._letters.resend(request.node, request.to, request.limit, do=request.yes)


@contextmanager
def _desk(job: str, overrides: list[str] | None, coordinator: str | None) -> Iterator[_Desk]:
    from headrace.client.discovery import connect
    from headrace.core.errors import UserError

    if _is_file(job):
        from headrace.coordinator.connector_host.pipeline_letters import PipelineLetters
        from headrace.local.pipeline_file import load_file

        with PipelineLetters(load_file(job, overrides or ()).pipeline) as letters:
            yield _FileDesk(letters)
        return
    if overrides:
        raise UserError("--set goes with a FILE", remedy="a JOB runs as it was submitted")
    with connect(coordinator) as client:
        yield _JobDesk(client, job)


def _is_file(text: str) -> bool:
    return text.endswith((".yaml", ".yml", ".py")) or ".py:" in text


def _one_line(value: str | None) -> str:
    if value is None:
        return "-"
    text = " ".join(value.split())
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}.."
