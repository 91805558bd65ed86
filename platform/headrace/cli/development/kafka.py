"""`headrace kafka`: the development broker of this host, and the topics of any broker.

It owns arguments and output. `headrace_dev.broker` does the work; it is imported when a command runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import print_table
from headrace.cli.errors import NOT_REACHABLE, reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.local.topics.records import ConsumedRecord
    from headrace.local.topics.topics import TopicDetail
    from headrace_dev.broker import FetchProgress
    from headrace_dev.broker.record import BrokerRecord
    from headrace_dev.demo.flights import FlightLog

app = typer.Typer(
    name="kafka",
    help="A development broker (real Apache Kafka) on this host; topics and messages of any broker.",
    no_args_is_help=True,
)

Brokers = Annotated[
    str | None,
    typer.Option(
        "--brokers",
        envvar="KAFKA_BROKERS",
        metavar="HOST:PORT,..",
        help="Brokers. Default: the running development broker, else localhost:9092.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command(short_help="start the development broker")
@reporting_errors()
def up(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default 9092; 0 takes a free one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for topics and offsets.")] = None,
    log: Annotated[Path | None, typer.Option(help="File for the broker's log.")] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="flights", help="Also make a topic with real data: flights, 336,776 JSON messages."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the development broker; it runs until `headrace kafka down`."""
    records = None if sample is None else _sample(sample)
    from headrace.core.settings import Home
    from headrace_dev.broker.record import bring_up

    with fetch_progress() as on_progress:
        record, started = bring_up(Home.from_environment(), port=port, data=data, log=log, on_progress=on_progress)
    if not as_json:
        typer.echo(f"Kafka {'runs' if started else 'already runs'} at {record.bootstrap} (pid {record.pid})")
        typer.echo(f"  data {record.data}\n  log  {record.log}")
    filled = None if records is None else _fill(record.bootstrap, records)
    if as_json:
        _print_json(
            {"running": True, "started": started, **_fields(record)} | ({} if filled is None else {"sample": filled})
        )
    elif filled is not None:
        done = "made topic {topic}: {messages:,} messages in {partitions} partitions"
        kept = "topic {topic} has the sample already: {messages:,} messages in {partitions} partitions"
        typer.echo((done if filled["made"] else kept).format(**filled))


@app.command(short_help="stop it; topics and offsets stay")
@reporting_errors()
def down(as_json: Json = False) -> None:
    """Stop the development broker; topics and offsets stay."""
    from headrace.core.settings import Home
    from headrace_dev.broker.record import bring_down

    record = bring_down(Home.from_environment())
    if as_json:
        _print_json({"running": False, "stopped": record is not None})
    elif record is None:
        typer.echo("no broker was running")
    else:
        typer.echo(f"stopped the broker at {record.bootstrap}; its topics stay in {record.data}")


@app.command(short_help="print whether it runs; exit code 3 if not")
@reporting_errors()
def status(as_json: Json = False) -> None:
    """Say whether the development broker runs and answers; exit code 3 when not."""
    from headrace.core.settings import Home
    from headrace_dev.broker.record import status as broker_status

    found = broker_status(Home.from_environment())
    record = found.record
    if as_json:
        fields = _fields(record) if record is not None and found.running else {}
        _print_json({"running": found.running, "answering": found.answering, **fields})
    elif record is None or not found.running:
        typer.echo("not running; start it with: headrace kafka up")
    else:
        state = "running" if found.answering else "running, but not answering"
        typer.echo(f"{state} at {record.bootstrap} (pid {record.pid})\n  data {record.data}\n  log  {record.log}")
    if not found.answering:
        raise typer.Exit(NOT_REACHABLE)


@app.command(short_help="list topics, or describe one")
@reporting_errors()
def topics(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", show_default=False)] = None,
    brokers: Brokers = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also print Kafka's internal topics.")] = False,
    as_json: Json = False,
) -> None:
    """List topics, or describe one."""
    from headrace.local.topics.topics import describe_topic, list_topics

    address = broker_address(brokers)
    if topic is not None:
        _print_topic(describe_topic(address, topic), as_json=as_json)
        return
    found = list_topics(address, internal=internal)
    if as_json:
        _print_json({"topics": [{"name": t.name, "partitions": t.partitions, "messages": t.messages} for t in found]})
    elif not found:
        typer.echo(f"no topics at {address}")
    else:
        rows = [(t.name, str(t.partitions), str(t.messages)) for t in found]
        print_table(("TOPIC", "PARTITIONS", "MESSAGES"), rows)


@app.command(short_help="make a topic")
@reporting_errors()
def create(
    topic: Topic,
    partitions: Annotated[int, typer.Option(min=1)] = 1,
    replication: Annotated[int, typer.Option(min=1)] = 1,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A topic setting; repeatable.")] = None,
    brokers: Brokers = None,
    as_json: Json = False,
) -> None:
    """Make a topic."""
    from headrace.local.topics.topics import create_topic

    settings = _settings(config or [])
    create_topic(broker_address(brokers), topic, partitions=partitions, replication=replication, config=settings)
    if as_json:
        _print_json({"topic": topic, "partitions": partitions})
    else:
        typer.echo(f"made topic {topic} with {partitions} partition{'s' if partitions > 1 else ''}")


@app.command(short_help="delete topics")
@reporting_errors()
def delete(
    targets: Annotated[list[str], typer.Argument(metavar="TOPIC..")],
    brokers: Brokers = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also on brokers that `headrace kafka up` did not start.")] = False,
    as_json: Json = False,
) -> None:
    """Delete topics and every message in them. Deletes none if one of them does not exist."""
    from headrace.core.errors import UserError
    from headrace.local.topics.topics import delete_topic, describe_topic

    address = broker_address(brokers)
    names = list(dict.fromkeys(targets))
    details = [describe_topic(address, name) for name in names]
    if not yes and address != own_broker():
        held = sum(part.end - part.start for detail in details for part in detail.partitions)
        subject = (
            f"topic {names[0]} at {address} holds" if len(names) == 1 else f"{len(names)} topics at {address} hold"
        )
        raise UserError(
            f"{subject} {plural(held, 'message')}, and that broker is not this home's own",
            remedy="--yes deletes them all the same",
        )
    for name in names:
        delete_topic(address, name)
        if not as_json:
            typer.echo(f"deleted topic {name}")
    if as_json:
        _print_json({"topics": names} | ({"topic": names[0]} if len(names) == 1 else {}))


@app.command(short_help="write messages, one a line")
@reporting_errors()
def produce(
    topic: Topic,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="One message a line; default stdin.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="CHAR", help=r"A line is KEY, this, VALUE; \t is a tab.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition to write to. Default: by key.")] = None,
    brokers: Brokers = None,
    as_json: Json = False,
) -> None:
    """Write messages to a topic, one a line."""
    from headrace.core.errors import UserError
    from headrace.local.topics.records import produce as write

    if key_separator == "":
        raise UserError("--key-separator is empty")
    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()
    try:
        with sys.stdin.buffer if file is None else file.open("rb") as source:
            count = write(broker_address(brokers), topic, _lines(source, separator), partition=partition)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from error
    if as_json:
        _print_json({"topic": topic, "messages": count})
    else:
        typer.echo(f"{plural(count, 'message')} written to {topic}", err=True)


@app.command(short_help="print the messages of a topic")
@reporting_errors()
def consume(
    topic: Topic,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, latest, a time, or an offset of every partition.")
    ] = "earliest",
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=0, help="Most messages to print.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with messages that arrive later.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="KEY, a tab, before the value.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="PARTITION:OFFSET, a tab, first.")] = False,
    brokers: Brokers = None,
    as_json: Annotated[bool, typer.Option("--json", help="One document; with --follow one a record.")] = False,
) -> None:
    """Print the messages of a topic, up to its end as of now."""
    from headrace.local.topics.records import consume as read

    place = int(start) if start.isdecimal() else start
    records = read(broker_address(brokers), topic, start=place, limit=limit, follow=follow, on_open=_tell_open)
    try:
        if as_json:
            _print_records_as_json(records, one_document=not follow)
        else:
            for record in records:
                _print_line(_line(record, keys=keys, offsets=offsets), flush=follow)
    except KeyboardInterrupt:
        typer.echo("", err=True)


def _sample(name: str) -> FlightLog:
    """Reads a sample before the broker starts: a wrong name or missing data must not leave a broker behind."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace_dev.demo.feed import load_sample

    return load_sample(name)


def _fill(brokers: str, records: FlightLog) -> dict[str, object]:
    """Writes the sample; returns the fields of its topic."""
    from dataclasses import asdict

    from headrace_dev.demo.feed import fill

    return asdict(fill(brokers, records))


def _tell_open(partition: int, offset: int) -> None:
    typer.echo(f"partition {partition} is shown up to {offset}: a transaction is open there", err=True)


@contextmanager
def fetch_progress() -> Iterator[Callable[[FetchProgress], None]]:
    """A broker's `on_progress`: shows a first download on stderr, and nothing otherwise."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    shown: list[Status] = []

    def show(progress: FetchProgress) -> None:
        if not shown:
            console.print("fetching Apache Kafka from Maven Central (once)")
            shown.append(console.status(""))
            shown[0].start()
        if progress.jars:
            megabytes = progress.bytes / 1_000_000
            text = f"fetching Apache Kafka: {progress.jars} of {progress.jars_total} jars, {megabytes:.0f} MB"
        else:
            text = f"resolving Apache Kafka: {progress.descriptors} descriptors read"
        shown[0].update(text)

    try:
        yield show
    finally:
        for status_line in shown:
            status_line.stop()


def broker_address(brokers: str | None) -> str:
    """The brokers of the option (or KAFKA_BROKERS), else the home's running broker, else Kafka's default port."""
    return brokers or own_broker() or "localhost:9092"


def own_broker() -> str | None:
    """Returns the home's broker, if it runs."""
    from headrace.core.settings import Home
    from headrace_dev.broker.record import read_record

    record = read_record(Home.from_environment())
    return record.bootstrap if record is not None and record.process.is_alive() else None


def _settings(pairs: list[str]) -> dict[str, str]:
    from headrace.core.errors import UserError

    for pair in pairs:
        if "=" not in pair:
            raise UserError(f"--config takes KEY=VALUE, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def _lines(source: Iterable[bytes], separator: bytes | None) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Returns (key, value) of every line; raises for a line without the separator."""
    from headrace.core.errors import UserError

    for number, line in enumerate(source, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield None, text
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise UserError(f"line {number} has no key separator {separator.decode()!r}")
        yield key, value


def _fields(record: BrokerRecord) -> dict[str, object]:
    return {
        "bootstrap": record.bootstrap,
        "port": record.port,
        "pid": record.pid,
        "data": str(record.data),
        "log": str(record.log),
    }


def _print_topic(topic: TopicDetail, *, as_json: bool) -> None:
    if as_json:
        partitions = [
            {
                "partition": p.partition,
                "leader": p.leader,
                "replicas": list(p.replicas),
                "in_sync": list(p.in_sync),
                "start": p.start,
                "end": p.end,
            }
            for p in topic.partitions
        ]
        _print_json({"name": topic.name, "partitions": partitions, "config": dict(topic.config)})
        return
    typer.echo(f"{topic.name}: {plural(sum(p.end - p.start for p in topic.partitions), 'message')}")
    for name, value in topic.config.items():
        typer.echo(f"  {name}={value}")
    rows = [
        (*map(str, (p.partition, p.leader)), ",".join(map(str, p.replicas)), *map(str, (p.start, p.end)))
        for p in topic.partitions
    ]
    print_table(("PARTITION", "LEADER", "REPLICAS", "START", "END"), rows)


def _print_json(document: object) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False))


def _print_records_as_json(records: Iterator[ConsumedRecord], *, one_document: bool) -> None:
    """Prints all records as one document, written as they arrive, or each as a document on its own line."""
    if not one_document:
        for record in records:
            _print_line(_as_json(record).encode(), flush=True)
        return
    first = next(records, None)
    if first is None:
        typer.echo('{"records": []}')
        return
    typer.echo('{"records": [')
    typer.echo(_as_json(first), nl=False)
    for record in records:
        typer.echo(",\n" + _as_json(record), nl=False)
    typer.echo("\n]}")


def _as_json(record: ConsumedRecord) -> str:
    fields = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False)


def _text(value: bytes | None) -> str | dict[str, str] | None:
    """Returns bytes for JSON: text if they are UTF-8, else base64 under that name."""
    import base64

    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _line(record: ConsumedRecord, *, keys: bool, offsets: bool) -> bytes:
    parts = [f"{record.partition}:{record.offset}".encode()] if offsets else []
    if keys:
        parts.append(_shown(record.key))
    return b"\t".join([*parts, _shown(record.value)])


def _shown(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def _print_line(line: bytes, *, flush: bool) -> None:
    """Prints the exact bytes of a message, whatever the terminal's encoding."""
    sys.stdout.buffer.write(line + b"\n")
    if flush:
        sys.stdout.buffer.flush()
