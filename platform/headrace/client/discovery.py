"""Selects the cluster: the named one, else the one in the environment, else the local one recorded in the home.

A cluster is named by the URL of a coordinator, by an election (`leadership.opening`), whose leader the client finds, or
a cluster on Kubernetes or YARN.

    <home>/cluster/cluster.json      written by `headrace cluster start`: the processes of the local cluster
    <home>/cluster/coordinator.json  written by a coordinator when it is ready: {url, grpc, pid, token_file, tls_ca}
    <home>/cluster/token             the cluster's token, unless its coordinator uses another file
    <home>/cluster/metrics-token     the read-only one, for health and metrics
    <home>/clusters/<name>/          homes of clusters that serve one job or application
    <home>/yarn/<name>/              clusters on YARN that this home has started (`yarn_clusters`)

A token set by the user (`token_files.given_token`) takes precedence. Otherwise a client sends the home's own token, and
only to coordinators that this home records.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.client.token_files import given_token, read_token
from headrace.core.errors import UnreachableError
from headrace.core.settings import Home
from headrace.leadership.opening import is_election, open_locator
from headrace.tls.files import named_authority, tls_authority

if TYPE_CHECKING:
    from headrace.client.http import Client

COORDINATOR_VARIABLE = "HEADRACE_COORDINATOR"
_SAME_HOST = ("//localhost", "//0.0.0.0")
"""Other spellings of loopback, in listening addresses and in URLs."""


def cluster_folder(home: Home) -> Path:
    """The folder of a home's local cluster: records, logs, tokens."""
    return home.root / "cluster"


def record_file(home: Home) -> Path:
    """The record that `headrace cluster start` writes."""
    return cluster_folder(home) / "cluster.json"


def coordinator_file(home: Home) -> Path:
    """The record that a coordinator of this home writes when it is ready."""
    return cluster_folder(home) / "coordinator.json"


def token_file(home: Home) -> Path:
    """The token of this home's coordinator, unless it uses another file."""
    return cluster_folder(home) / "token"


def metrics_token_file(home: Home) -> Path:
    """The token for health and metrics only."""
    return cluster_folder(home) / "metrics-token"


def own_clusters(home: Home) -> Path:
    """The folder with the homes of clusters that serve one job or application."""
    return home.root / "clusters"


def connect(url: str | None = None) -> Client:
    """A client of the selected cluster; sends nothing yet. Raises UnreachableError if no cluster is known, and
    UserError for a token file that cannot be read.
    """
    # other functions of this module need no HTTP library
    from headrace.client.http import Client

    home = Home.from_environment()
    named = url or os.environ.get(COORDINATOR_VARIABLE) or _recorded_url(home)
    if named is None:
        raise UnreachableError(
            f"no cluster runs in {home.root}",
            remedy="headrace cluster start starts one; --coordinator URL or HEADRACE_COORDINATOR names another",
        )
    match urlsplit(named).scheme:
        case "kubernetes":
            return _connect_on_kubernetes(named, home)
        case "yarn":
            return _connect_on_yarn(named, home)
        case _:
            pass
    if is_election(named):
        # each coordinator of the election has put the cluster's token into its home
        token = given_token() or read_token(token_file(home))
        return Client("", token, authority=authority_of(home), locator=open_locator(named, os.environ))
    recorded = _recorded_as(home, named)
    token = given_token() or (None if recorded is None else _token_of(*recorded))
    return Client(named, token, authority=named_authority(os.environ) or _authority_in(recorded))


def _connect_on_kubernetes(address: str, home: Home) -> Client:
    from headrace.client.cluster_secret import ClusterAccess, with_secrets
    from headrace.client.http import Client

    given = ClusterAccess(given_token(), named_authority(os.environ))
    # of coordinators on hosts that are elected there
    recorded = ClusterAccess(read_token(token_file(home)), authority_of(home))
    access = with_secrets(address, given, recorded)
    return Client("", access.token, authority=access.authority, locator=open_locator(address, os.environ))


def _connect_on_yarn(address: str, home: Home) -> Client:
    from headrace.client.http import Client
    from headrace.client.yarn_clusters import authority_of as recorded_authority
    from headrace.client.yarn_clusters import token_of

    token = given_token() or token_of(home, address)
    authority = tls_authority(os.environ) or recorded_authority(home, address)
    return Client("", token, authority=authority, locator=open_locator(address, os.environ))


def authority_of(home: Home) -> Path | None:
    """The authority for this home's coordinator: the one named by the environment, else the one the coordinator
    recorded."""
    recorded = next(((home, record) for record in _records(home)), None)
    return tls_authority(os.environ) or _authority_in(recorded)


def recorded_token(home: Home) -> str | None:
    """The token of this home's last coordinator; None if there was none."""
    return _token_of(home, next(_records(home), {}))


def _recorded_as(home: Home, url: str) -> tuple[Home, Mapping[str, object]] | None:
    """The home (this one, or one inside of it) with a record of the coordinator at `url`, and that record."""
    for each in (home, *map(Home, own_clusters(home).glob("*"))):
        for record in _records(each):
            if _comparable(str(record.get("url"))) == _comparable(url):
                return each, record
    return None


def _token_of(home: Home, record: Mapping[str, object]) -> str | None:
    file = record.get("token_file")
    return read_token(Path(file) if isinstance(file, str) else token_file(home))


def _authority_in(recorded: tuple[Home, Mapping[str, object]] | None) -> Path | None:
    file = None if recorded is None else recorded[1].get("tls_ca")
    return Path(file) if isinstance(file, str) else None


def _recorded_url(home: Home) -> str | None:
    return next((url for record in _records(home) if isinstance(url := record.get("url"), str)), None)


def _records(home: Home) -> Iterator[Mapping[str, object]]:
    # the coordinator's own record first: it may have been started manually, with another port
    for path in (coordinator_file(home), record_file(home)):
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            yield record


def _comparable(url: str) -> str:
    for name in _SAME_HOST:
        url = url.replace(name, "//127.0.0.1")
    return url.rstrip("/")
