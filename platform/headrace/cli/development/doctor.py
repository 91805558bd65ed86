"""`headrace doctor`: checks this installation, and everything outside that a pipeline needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, Set, print_json
from headrace.cli.errors import FAILED, reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.connect.access import Finding
    from headrace.core.settings import Home
    from headrace.local.doctor.probes import Check

STATUS_WIDTH = len("not checked")


@reporting_errors()
def doctor(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="A pipeline: its brokers, topics, rights and storage are checked, too.",
            show_default=False,
        ),
    ] = None,
    set_: Set = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers",
            envvar="KAFKA_BROKERS",
            metavar="HOST:PORT,..",
            help="Without FILE: brokers to check. Default: the running development broker, if there is one.",
        ),
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator",
            envvar="HEADRACE_COORDINATOR",
            metavar="URL",
            help="A cluster to check. Default: the one in HEADRACE_HOME, if there is one.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1.0, help="Longest time for a check, in seconds.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Check this installation, and what FILE needs outside of it. Exit code 1 if a check failed; warnings are none.

    Writes no record, no offset and no state. Checkpoint storage gets one small object, which is deleted again.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.connect.access import Status
    from headrace.core.settings import Home
    from headrace.local.doctor.probes import Check, check_coordinator, check_home, check_installation, run_checks

    home = Home.from_environment()
    checks = (
        Check("headrace", check_installation),
        Check("java", _java),
        Check(f"home {home.root}", lambda: check_home(home)),
        *_outside(file, set_ or [], brokers, home, timeout),
        Check("coordinator", lambda: check_coordinator(coordinator)),
    )
    # a check has the time of its own calls, which end first and say more
    findings = run_checks(checks, limit_s=1.5 * timeout)
    failed = sum(each.status is Status.FAILED for each in findings)
    if as_json:
        from headrace.core.concealing import concealed_data

        print_json({"ok": not failed, "checks": concealed_data([_document(each) for each in findings])})
    else:
        _print(findings)
    if failed:
        raise typer.Exit(FAILED)


def _outside(
    file: str | None, set_: Sequence[str], brokers: str | None, home: Home, timeout_s: float
) -> tuple[Check, ...]:
    from headrace.cli.development.kafka import own_broker
    from headrace.connect.access import Finding, Status
    from headrace.local.doctor.pipeline import broker_checks, file_checks
    from headrace.local.doctor.probes import Check, check_storage

    if file is not None:
        return file_checks(file, set_, home, limit_s=timeout_s)
    address = brokers or own_broker()
    storage = Check(f"storage {home.checkpoints}", lambda: check_storage(str(home.checkpoints)))
    if address is not None:
        return *broker_checks(address, limit_s=timeout_s), storage
    unchecked = Finding(
        "brokers", Status.UNCHECKED, "none are named: write FILE, --brokers or KAFKA_BROKERS; no broker runs here"
    )
    return Check("brokers", lambda: (unchecked,)), storage


def _java() -> Sequence[Finding]:
    from headrace.core.errors import ExternalError
    from headrace.local.doctor import verdicts
    from headrace_dev.broker.java import find_java

    try:
        found = find_java()
    except ExternalError as error:
        return (verdicts.java(None, error.message, error.remedy),)
    return (verdicts.java(f"{found.version}, by {found.origin}", "", None),)


def _print(findings: Sequence[Finding]) -> None:
    from headrace.connect.access import Status
    from headrace.core.concealing import concealed

    colours = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "red", Status.UNCHECKED: None}
    for each in findings:
        status = typer.style(each.status.ljust(STATUS_WIDTH), fg=colours[each.status])
        typer.echo(f"{status}  {concealed(f'{each.check}: {each.text}')}")
        if each.remedy is not None and each.status is not Status.OK:
            typer.echo(f"{'':{STATUS_WIDTH}}    {concealed(each.remedy)}")
    failed, warned = (sum(each.status is status for each in findings) for status in (Status.FAILED, Status.WARNING))
    typer.echo(f"{plural(len(findings), 'check')}, {failed} failed, {plural(warned, 'warning')}", err=True)


def _document(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "status": finding.status,
        "text": finding.text,
        "remedy": finding.remedy,
    }
