"""Flags of commands that start one host's part of a cluster with standbys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.core.errors import UserError
from headrace.core.network.hosts import LOOPBACK

if TYPE_CHECKING:
    from headrace.local.cluster import Election


def _ha(variable: str | None = None) -> Any:
    return typer.Option(
        "--ha",
        envvar=variable,
        metavar="URL",
        help="Election among several coordinators: file:///shared/folder, zookeeper://HOST1,HOST2/path or "
        "kubernetes://NAMESPACE/LEASE. "
        "One leads; the others are standbys.",
        show_default=False,
    )


def _ledger(variable: str | None = None) -> Any:
    return typer.Option(
        "--ledger",
        envvar=variable,
        metavar="URL",
        help="Where coordinators share their jobs: a folder that all hosts mount, s3://bucket/prefix, or hdfs://.. "
        "Default: cluster of HEADRACE_HOME; the folder of a file:// election.",
        show_default=False,
    )


def _key_file(variable: str | None = None) -> Any:
    return typer.Option(
        "--key-file",
        envvar=variable,
        help="File with the key that encrypts what is secret in the ledger; the same on each host.",
    )


Ha = Annotated[str | None, _ha()]
Ledger = Annotated[str | None, _ledger()]
KeyFile = Annotated[Path | None, _key_file()]
# of the coordinator alone: by a variable of its host no other cluster becomes a part of that one
HaOrVariable = Annotated[str | None, _ha("HEADRACE_HA")]
LedgerOrVariable = Annotated[str | None, _ledger("HEADRACE_LEDGER")]
KeyFileOrVariable = Annotated[Path | None, _key_file("HEADRACE_KEY_FILE")]
Host = Annotated[
    str | None,
    typer.Option(
        "--host", help="With --ha: name or address of this host, by which the others reach it. Default: loopback."
    ),
]


def election_of(ha: str | None, ledger: str | None, key_file: Path | None, host: str | None) -> Election | None:
    """Returns the election that the flags name; None without --ha. Raises UserError."""
    from headrace.coordinator.store.shared_ledger import shared_ledger
    from headrace.leadership.opening import open_locator
    from headrace.local.cluster import Election

    if ha is None:
        for flag, given in (("--ledger", ledger), ("--key-file", key_file), ("--host", host)):
            if given is not None:
                raise UserError(f"{flag} means nothing without --ha", remedy="give --ha URL, too: the election")
        return None
    # their errors end this command, not the processes that follow
    open_locator(ha, os.environ).close()
    shared_ledger(ha, ledger, key_file)
    key = None if key_file is None else key_file.absolute()
    return Election(url=ha, ledger=ledger, key_file=key, host=host or LOOPBACK)
