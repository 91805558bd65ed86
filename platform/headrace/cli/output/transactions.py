"""`headrace transactions`: lists Headrace's open transactions, and ends them where that is safe.

There are two ways. JOB: a coordinator knows the job, with its connectors and secrets. `--brokers`: this process lists
the open transactions with Headrace's prefix on these brokers, and asks the coordinator about their jobs, if one
answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.arguments import Coordinator, Json, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.client.output_models import TransactionInfo, TransactionList

app = typer.Typer(
    name="transactions",
    help="Kafka transactions (and other staged output) of jobs: list, commit or abort open ones.",
    no_args_is_help=True,
)

HEAD = ("TRANSACTION", "JOB", "SINK", "STATE", "HOLDS BACK", "SAFE", "ATTEMPT", "SUBTASK", "CHECKPOINT", "AGE", "OF")
PLACES_SHOWN = 3

JobArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", help="A job id, a unique prefix of one, or the name of a running job.", show_default=False
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--brokers",
        metavar="HOST:PORT,..",
        help="Instead of JOB: all transactions on these brokers with the prefix `headrace-`.",
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="K=V", help="With --brokers: a client property, such as sasl.username=me."),
]
Name = Annotated[
    list[str] | None, typer.Option("--name", metavar="TRANSACTION", help="Print only this one; repeatable.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Default: only print what would be done.")]


@app.command("list", short_help="list open transactions, their age, and what is safe to do")
@reporting_errors()
def list_(
    job: JobArgument = None,
    brokers: Brokers = None,
    properties: Property = None,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """List open transactions: their job, attempt and checkpoint, their age, the partitions whose readers wait, what to
    do.

    SAFE is the action that is safe. commit: a complete checkpoint names the transaction. abort: its job has ended, and
    no checkpoint names it. leave: its job runs and ends it itself.
    """
    found = _look(job, brokers, properties, coordinator)
    _print(found, as_json=as_json)


@app.command("commit", short_help="commit transactions that a complete checkpoint decided")
@reporting_errors()
def commit(
    job: JobArgument = None,
    brokers: Brokers = None,
    properties: Property = None,
    names: Name = None,
    yes: Yes = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Commit the open transactions of a job that does not run, if a complete checkpoint names them. Repeating it
    changes nothing.

    Only transactions that a checkpoint decided may be committed, and only the coordinator that knows the job can do it:
    others could show rows that will be written again. A running job commits its own transactions, and is refused.
    """
    _print(_end("commit", job, _Wish(brokers, properties, names, yes), coordinator), as_json=as_json)


@app.command("abort", short_help="abort transactions that no checkpoint decided")
@reporting_errors()
def abort(
    job: JobArgument = None,
    brokers: Brokers = None,
    properties: Property = None,
    names: Name = None,
    yes: Yes = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also abort output of jobs that are suspended or unknown; never decided output."),
    ] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Abort the open transactions of ended jobs that no complete checkpoint names, so that read_committed readers can
    continue.

    A transaction that a complete checkpoint names is never aborted, not with --force either: its rows were promised.
    Transactions of a job that no coordinator knows are aborted only with --force: another cluster may be about to
    commit them.
    """
    wish = _Wish(brokers, properties, names, yes, force)
    _print(_end("abort", job, wish, coordinator), as_json=as_json)


class _Wish:
    """The options of `commit` and `abort`."""

    def __init__(
        self,
        brokers: str | None,
        properties: Sequence[str] | None,
        names: Sequence[str] | None,
        yes: bool,
        force: bool = False,
    ) -> None:
        self.brokers, self.properties = brokers, properties
        self.names = tuple(names or ())
        self.yes, self.force = yes, force


def _look(
    job: str | None, brokers: str | None, properties: Sequence[str] | None, coordinator: str | None
) -> TransactionList:
    from headrace.client.discovery import connect

    if _one_way(job, brokers, properties) == "job":
        assert job is not None
        with connect(coordinator) as client:
            return client.transactions(job)
    from headrace.local.output.transactions import BrokerTransactions

    assert brokers is not None
    with BrokerTransactions.open(brokers, _properties(properties), coordinator) as found:
        return found.look()


def _end(action: Literal["commit", "abort"], job: str | None, wish: _Wish, coordinator: str | None) -> TransactionList:
    from headrace.client.discovery import connect
    from headrace.client.output_models import EndTransactionsRequest

    request = EndTransactionsRequest(action=action, names=wish.names, yes=wish.yes, force=wish.force)
    if _one_way(job, wish.brokers, wish.properties) == "job":
        assert job is not None
        with connect(coordinator) as client:
            return client.end_transactions(job, request)
    from headrace.local.output.transactions import BrokerTransactions

    assert wish.brokers is not None
    with BrokerTransactions.open(wish.brokers, _properties(wish.properties), coordinator) as found:
        return found.end(request)


def _one_way(job: str | None, brokers: str | None, properties: Sequence[str] | None) -> Literal["job", "brokers"]:
    from headrace.core.errors import UserError

    if job is not None and brokers is None and properties:
        raise UserError("--property goes with --brokers", remedy="a JOB's own properties are with its coordinator")
    if (job is None) == (brokers is None):
        raise UserError("name a JOB, or --brokers HOST:PORT", remedy="`headrace list` shows the jobs")
    return "job" if job is not None else "brokers"


def _properties(given: Sequence[str] | None) -> dict[str, str]:
    from headrace.core.errors import UserError

    pairs = [text.partition("=") for text in given or ()]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UserError(f"--property {name!r} says nothing", remedy="write --property NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _print(found: TransactionList, *, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.transactions:
        print_table(HEAD, [_row(each) for each in found.transactions], left=6)
        for line in _reasons(found.transactions):
            typer.echo(line)
    else:
        typer.echo("nothing is open", err=True)
    if found.note:
        typer.echo(found.note, err=True)


def _row(each: TransactionInfo) -> tuple[str, ...]:
    more = len(each.holds_back) - PLACES_SHOWN
    places = ", ".join(each.holds_back[:PLACES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return (
        each.name,
        f"{each.job_id} ({each.job_state})" if each.job_state else each.job_id,
        each.sink,
        each.done or each.state,
        places or "-",
        each.safe,
        _number(each.attempt),
        _number(each.subtask),
        _number(each.epoch),
        _duration(each.age_ms),
        _duration(each.timeout_ms),
    )


def _reasons(transactions: Sequence[TransactionInfo]) -> Iterator[str]:
    """Returns each reason once, with the number of its transactions."""
    by_reason: dict[tuple[str, str], int] = {}
    for each in transactions:
        by_reason[each.safe, each.why] = by_reason.get((each.safe, each.why), 0) + 1
    for (safe, why), count in by_reason.items():
        yield f"  {safe} ({plural(count, 'transaction')}): {why}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _duration(ms: int | None) -> str:
    if ms is None:
        return "-"
    return f"{ms / 1000:.0f} s" if ms < 120_000 else f"{ms / 60_000:.0f} min"
