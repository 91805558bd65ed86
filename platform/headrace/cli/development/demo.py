"""`headrace demo`: real flights through a real broker, on this host, in half a minute; leaves nothing behind.

It owns the options, the signals and the final report. `headrace_dev.demo.flow` is the flow, `demo_screen` the table.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, print_json
from headrace.cli.errors import FAILED, reporting_errors

if TYPE_CHECKING:
    from headrace_dev.demo.flow import DemoReport

YEAR_SECONDS = 12.0
"""Duration of the replayed year on a terminal: at full speed it would end before a user sees it."""

NEXT = """\
What to try next
  headrace init rides                      a small project: pipeline, function, tests
  headrace explain examples/flights.yaml   what just ran: columns, time, tasks
  headrace kafka up                        a broker that stays, for topics of your own
  examples/README.md, docs/README.md       more pipelines; the pipeline file, expressions"""


@reporting_errors()
def demo(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the broker; 0 takes a free one.")] = 0,
    rows: Annotated[int | None, typer.Option(min=1, help="Number of flights. Default: all.")] = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Show a live table, at a pace to watch it.")] = True,
    as_json: Json = False,
) -> None:
    """Run the demonstration: broker, 336,776 flights, windowed results, and a check of every one of them."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.cli.development.demo_screen import LiveScreen, PlainScreen
    from headrace_dev.demo.flow import DemoOptions, run_demo

    shown = live and sys.stderr.isatty()
    screen = LiveScreen() if shown else PlainScreen()
    options = DemoOptions(port=port, rows=rows, seconds=YEAR_SECONDS if shown else 0.0)
    # called here once: it tests the folder with a file, and an interrupt in between would leave that file behind
    tempfile.gettempdir()
    try:
        with _interruptible(), screen:
            report = run_demo(options, screen)
    except KeyboardInterrupt as stop:
        typer.echo("stopped; nothing runs and nothing is left behind", err=True)
        raise typer.Exit(128 + (stop.args[0] if stop.args else signal.SIGINT)) from stop
    if as_json:
        print_json(_document(report))
    else:
        typer.echo(_summary(report))
    if report.differences:
        for difference in report.differences:
            typer.secho(f"error: {difference}", fg="red", err=True)
        raise typer.Exit(FAILED)
    if not as_json:
        typer.echo(f"\n{NEXT}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP ends the demonstration; further ones are ignored while it cleans up."""
    asked = False

    def stop(number: int, _frame: object) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt(number)

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(report: DemoReport) -> str:
    from headrace.core.text.plural import count_text

    check, speed = report.live, report.throughput
    departed = report.flights - report.cancelled
    rate, cpu_rate = (count_text(speed.rows / max(s, 1e-9)) for s in (speed.seconds, speed.cpu_seconds))
    verdict = "FAILED" if report.differences else "every row is the same"
    return f"""\
Flights     {report.flights:,} in topic flights; {report.cancelled:,} cancelled, {departed:,} departed
Windows     {check.windows:,} rows in topic delays, which count {check.counted:,} flights
Late        {check.late:,} flights in topic flights-late: their hour was closed
Sum         {check.counted:,} + {check.late:,} = {check.counted + check.late:,} of {departed:,}
Check       against a polars batch query, twice (live, and again from the log): {verdict}
Throughput  {speed.rows:,} flights again in {speed.seconds:.2f} s: {rate} rows/s, {cpu_rate} rows per CPU-second"""


def _document(report: DemoReport) -> dict[str, object]:
    speed = report.throughput
    return {
        "flights": report.flights,
        "cancelled": report.cancelled,
        "windows": report.live.windows,
        "counted": report.live.counted,
        "late": report.live.late,
        "differences": list(report.differences),
        "rows": speed.rows,
        "seconds": round(speed.seconds, 3),
        "cpu_seconds": round(speed.cpu_seconds, 3),
    }
