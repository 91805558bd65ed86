"""Which cluster is meant: the one named, else that of the environment, else the local one recorded in the home.

    <home>/cluster/cluster.json      what `headrace cluster start` keeps: the processes of the local cluster
    <home>/cluster/coordinator.json  what a coordinator writes when it is ready: {url, grpc, pid, tls_ca}

A token comes from `HEADRACE_TOKEN`, or, for the home's own coordinator, from the file `<home>/cluster/token`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.errors import Unreachable
from headrace.core.settings import Home
from headrace.tls.files import tls_authority

if TYPE_CHECKING:
    from headrace.client.http import Client

COORDINATOR_VARIABLE, TOKEN_VARIABLE = "HEADRACE_COORDINATOR", "HEADRACE_TOKEN"


def cluster_folder(home: Home) -> Path:
    """Where a home keeps its local cluster: records, logs, token."""
    return home.root / "cluster"


def record_file(home: Home) -> Path:
    """What `headrace cluster start` keeps."""
    return cluster_folder(home) / "cluster.json"


def coordinator_file(home: Home) -> Path:
    """What a coordinator of this home writes when it is ready."""
    return cluster_folder(home) / "coordinator.json"


def token_file(home: Home) -> Path:
    """The token of this home's coordinator, where it has one."""
    return cluster_folder(home) / "token"


def connect(url: str | None = None) -> Client:
    """A client of the cluster that is meant. Nothing is sent yet. Raises Unreachable where no cluster is known."""
    # where a cluster's files are is known without it
    from headrace.client.http import Client

    named = url or os.environ.get(COORDINATOR_VARIABLE)
    token = os.environ.get(TOKEN_VARIABLE)
    if named:
        return Client(named, token, authority=tls_authority(os.environ))
    home = Home.from_environment()
    recorded = _recorded_url(home)
    if recorded is None:
        raise Unreachable(
            f"no cluster runs in {home.root}",
            remedy="headrace cluster start starts one; --coordinator URL or HEADRACE_COORDINATOR names another",
        )
    return Client(recorded, token or read_token(token_file(home)), authority=authority_of(home))


def authority_of(home: Home) -> Path | None:
    """Who signed the certificate of this home's coordinator: what is named, else what it says of itself."""
    named = tls_authority(os.environ)
    recorded = _recorded(home, "tls_ca")
    return named or (None if recorded is None else Path(recorded))


def read_token(path: Path) -> str | None:
    """The token in a file; None where there is no file."""
    try:
        return path.read_text().strip() or None
    except FileNotFoundError:
        return None


def _recorded_url(home: Home) -> str | None:
    return _recorded(home, "url")


def _recorded(home: Home, name: str) -> str | None:
    # a coordinator's own word first: it may have been started by hand, with another port
    for path in (coordinator_file(home), record_file(home)):
        try:
            value = json.loads(path.read_text())[name]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(value, str):
            return value
    return None
