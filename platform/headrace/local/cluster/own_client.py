"""Clients of the cluster of a home, whatever cluster the environment names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.client.discovery import token_file
from headrace.client.token_files import read_token
from headrace.leadership.opening import open_locator

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.client.http import Client
    from headrace.core.settings import Home
    from headrace.local.cluster.record import ClusterRecord

ANSWER_SECONDS = 5.0
"""Patience with a coordinator on this host."""


def coordinator_client(home: Home, record: ClusterRecord) -> Client:
    """A client of the home's coordinator. A standby answers for itself what it can, and sends on the rest."""
    from headrace.client.http import Client

    return Client(record.url, read_token(token_file(home)), authority=_authority(record), answer_s=ANSWER_SECONDS)


def leader_client(home: Home, record: ClusterRecord) -> Client:
    """A client of the coordinator that leads, on whatever host."""
    from headrace.client.http import Client

    election = record.election
    url, locator = (record.url, None) if election is None else ("", open_locator(election.url, os.environ))
    return Client(url, read_token(token_file(home)), authority=_authority(record), locator=locator)


def _authority(record: ClusterRecord) -> Path | None:
    return None if record.tls is None else record.tls.ca
