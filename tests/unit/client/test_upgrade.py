"""An upgrade as the client performs it, against the real REST API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.http import Client
from headrace.client.models import SubmitRequest
from headrace.client.upgrade import upgrade
from support.control.scripted_cluster import ScriptedCluster, client_of

PIPELINE: dict[str, Any] = {
    "name": "counting",
    "sources": {"numbers": {"generator": {"rows": 10, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}


@pytest.fixture
def client() -> Iterator[Client]:
    with client_of(ScriptedCluster()) as client:
        yield client


def test_the_cluster_is_held_from_before_the_stop_until_the_next_job_is_there(client: Client) -> None:
    old = client.submit(SubmitRequest(pipeline=PIPELINE))
    held: list[tuple[str, bool]] = []

    def tell(line: str) -> None:
        held.append((line.split(" ", maxsplit=1)[0], client.cluster().held))

    done = upgrade(client, old, SubmitRequest(pipeline=PIPELINE), savepoint="/here", tell=tell)

    assert held == [("stopped", True), ("submitted", True)]
    assert not client.cluster().held
    assert (done.old, done.refused, client.status(done.job).state) == (old, None, "RUNNING")


def test_a_cluster_is_held_no_longer_if_the_upgrade_fails(client: Client) -> None:
    with pytest.raises(Exception, match="nobody"):
        upgrade(client, "nobody", SubmitRequest(pipeline=PIPELINE), savepoint=None, tell=print)
    assert not client.cluster().held
