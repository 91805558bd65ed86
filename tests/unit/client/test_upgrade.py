"""An upgrade as the client performs it, against the real REST API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.upgrade import upgrade
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.core.errors import UserError
from support.control.scripted_cluster import METRICS_TOKEN, TOKEN, ScriptedCluster, client_of, serving_app

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


class LostAnswers:
    """A coordinator that is lost amid its first answer to each path: it has done what was asked."""

    def __init__(self, inner: ASGIApp, *ends: str) -> None:
        self._inner = inner
        self.left = list(ends)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        end = next((end for end in self.left if scope["type"] == "http" and scope["path"].endswith(end)), None)
        if end is None or scope["method"] != "POST":
            await self._inner(scope, receive, send)
            return
        self.left.remove(end)

        async def cut(message: Message) -> None:
            await send(message if message["type"] == "http.response.start" else {**message, "body": b""})

        await self._inner(scope, receive, cut)


@pytest.mark.parametrize("refused", [False, True])
def test_a_lost_answer_starts_no_second_job(refused: bool) -> None:
    cluster = ScriptedCluster()
    app = LostAnswers(rest_app(cluster, Tokens(TOKEN, METRICS_TOKEN)))
    with serving_app(app) as url, Client(url, TOKEN) as client:
        old = client.submit(SubmitRequest(pipeline=PIPELINE))
        app.left = ["/resubmit"] if refused else ["/jobs"]

        def refuse(line: str) -> None:
            if refused:
                cluster.refuse = UserError("no") if line.startswith("stopped") else None

        done = upgrade(client, old, SubmitRequest(pipeline=PIPELINE), savepoint=None, tell=refuse)

        assert app.left == [], "the answer was lost"
        assert [job for job in cluster.jobs_by_id if job != old] == [done.job]
        assert (done.refused is not None) == refused
