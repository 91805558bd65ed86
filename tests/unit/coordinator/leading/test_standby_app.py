"""What a standby answers and forwards, its clients, and a leader in doubt."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.client import connection
from headrace.client.http import Client
from headrace.coordinator.leading.leader_line import LeaderLine
from headrace.coordinator.leading.standby_app import holding_app, noting_app, standby_app
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.core.errors import ExternalError, UnreachableError
from headrace.leadership.elector import FORWARDED_HEADER, LEADER_HEADER, Leader
from headrace.leadership.file_election import FileLocator
from support.control.scripted_cluster import METRICS_TOKEN, TOKEN, ScriptedCluster, serving, serving_app
from support.leadership.announcing import announcing

TOKENS = Tokens(TOKEN, METRICS_TOKEN)
OWN = "http://standby:1"


class Asking:
    """Requests to an application over HTTP, with the cluster's token."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, app: ASGIApp, token: str = TOKEN) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = self._stack.enter_context(serving_app(app))
        return self._stack.enter_context(httpx.Client(base_url=url, headers=headers, trust_env=False))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def asking(stack: ExitStack) -> Asking:
    return Asking(stack)


def standby(leader: Leader | None, tokens: Tokens | None = TOKENS) -> ASGIApp:
    return standby_app(lambda: tokens, lambda: leader, OWN, LeaderLine(None, "standby"))


def leading(stack: ExitStack, app: ASGIApp) -> Leader:
    return Leader(stack.enter_context(serving_app(app)), "leader:2", 4)


class Seen:
    """A leader that answers with this body, and keeps what it was asked."""

    def __init__(self, answer: bytes = b"{}") -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        self.requests.append((f"{request.method} {request.url.path}?{request.url.query}", dict(request.headers), body))
        await Response(self.answer, 201, {"X-Own": "kept"}, "application/json")(scope, receive, send)


def test_a_standby_forwards_requests_of_those_who_show_the_token(stack: ExitStack, asking: Asking) -> None:
    leader = Seen(b"[1, 2]")
    app = standby(leading(stack, leader))
    answer = asking(app).post("/v1/jobs/a%2Fb?c=d", json={"e": 1})
    assert (answer.status_code, answer.content, answer.headers["x-own"]) == (201, b"[1, 2]", "kept")
    ((asked, headers, body),) = leader.requests
    assert (asked, body) == ("POST /v1/jobs/a/b?c=d", b'{"e":1}')
    assert (headers["authorization"], headers[FORWARDED_HEADER.lower()]) == (f"Bearer {TOKEN}", "standby")
    assert asking(app, "").get("/v1/jobs").status_code == 401
    assert asking(app, METRICS_TOKEN).get("/v1/jobs").status_code == 403
    assert asking(app).post("/v1/jobs", headers={"Sec-Fetch-Site": "cross-site"}, json={}).status_code == 403
    chunked = asking(app).post("/v1/jobs", content=iter([b"{}"]), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 411
    assert len(leader.requests) == 1, "what is refused by its head reaches no leader"


def test_bodies_of_any_size_pass(stack: ExitStack, asking: Asking) -> None:
    leader = Seen(bytes(range(256)) * 40_000)
    large = b'"' + b"x" * 9_000_000 + b'"'
    headers = {"Content-Type": "application/json"}
    answer = asking(standby(leading(stack, leader))).post("/v1/jobs", content=large, headers=headers)
    assert (answer.content == leader.answer, leader.requests[0][2] == large) == (True, True)


@pytest.mark.parametrize("path", ["@127.0.0.2:1/v1/jobs", "http://127.0.0.2:1/v1/jobs", "//127.0.0.2:1/v1/jobs"])
def test_no_path_sends_the_token_elsewhere(stack: ExitStack, path: str) -> None:
    leader = Seen()
    url = httpx.URL(stack.enter_context(serving_app(standby(leading(stack, leader)))))
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((url.host, url.port or 0)) as line:
        line.sendall(request.encode())
        answer = line.makefile("rb").read()
    # by the leader, or refused: nothing listens at the other address, which would be told as 503
    assert b" 503 " not in answer.partition(b"\r\n")[0]


def test_a_leader_that_does_not_answer_has_not_handled_what_it_did_not_get(asking: Asking) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    answer = asking(standby(Leader(f"http://127.0.0.1:{port}", "leader:2", 4))).post("/v1/jobs", json={})
    assert (answer.status_code, answer.json()["retry"], answer.headers[LEADER_HEADER]) == (503, True, "")
    assert "does not answer it" in answer.json()["message"]


def test_a_leader_that_dies_over_a_request_may_have_handled_it(asking: Asking) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dying:
        leader = Leader(f"http://127.0.0.1:{dying.getsockname()[1]}", "leader:2", 4)

        def die() -> None:
            for _ in range(2):
                line, _address = dying.accept()
                line.recv(1_000)
                line.close()

        thread = threading.Thread(target=die)
        thread.start()
        app = asking(standby(leader))
        changed, read = app.post("/v1/jobs", json={}), app.get("/v1/jobs")
        thread.join()
    assert (changed.status_code, LEADER_HEADER in changed.headers) == (502, False), "no client repeats it by itself"
    assert (read.status_code, read.headers[LEADER_HEADER]) == (503, "")


def test_a_leader_notes_standbys_that_show_the_token(stack: ExitStack) -> None:
    seen: list[str] = []
    leader = leading(stack, noting_app(rest_app(ScriptedCluster(), TOKENS), TOKENS, lambda: seen.append("seen")))

    async def show(token: str) -> None:
        line = LeaderLine(None, "standby")
        await line.show(leader, token)
        await line.close()

    asyncio.run(show(METRICS_TOKEN))
    asyncio.run(show("no token"))
    assert not seen
    asyncio.run(show(TOKEN))
    assert seen == ["seen"]


def test_a_standby_is_healthy(asking: Asking) -> None:
    answer = asking(standby(None), METRICS_TOKEN).get("/v1/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "standby")


@pytest.mark.parametrize(
    ("leader", "tokens", "said"),
    [
        (None, TOKENS, "no coordinator leads now"),
        # what is published is the address of its own last term
        (Leader(OWN, "standby:2", 3), TOKENS, "no coordinator leads now"),
        (Leader("http://leader:1", "leader:2", 3), None, "has not read the cluster's tokens"),
    ],
)
def test_a_standby_that_knows_no_leader_says_so(
    leader: Leader | None, tokens: Tokens | None, said: str, asking: Asking
) -> None:
    answer = asking(standby(leader, tokens)).post("/v1/jobs", json={})
    assert (answer.status_code, answer.json()["retry"], answer.headers[LEADER_HEADER]) == (503, True, "")
    assert said in answer.json()["message"]


def test_a_leader_in_doubt_answers_what_changes_nothing(asking: Asking) -> None:
    held = asking(holding_app(rest_app(ScriptedCluster(), TOKENS), "cut off"))
    assert held.get("/v1/jobs").status_code == 200
    refused = held.post("/v1/jobs/a/cancel", headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["retry"]) == (503, True)
    assert "in doubt: cut off" in refused.json()["message"]


def test_a_client_that_reaches_only_a_standby_uses_the_cluster(stack: ExitStack) -> None:
    leader = Leader(stack.enter_context(serving(ScriptedCluster())), "leader:2", 4)
    url = stack.enter_context(serving_app(standby(leader)))
    client = stack.enter_context(Client(url, TOKEN))
    assert client.jobs() == ()
    assert client.cluster().cluster_id
    assert client.url == url


def test_a_client_follows_a_standby_of_an_earlier_version_to_the_leader(stack: ExitStack) -> None:
    leader = stack.enter_context(serving(ScriptedCluster()))
    redirect = Response(b"", 307, {"Location": f"{leader}/v1/jobs", LEADER_HEADER: leader})
    client = stack.enter_context(Client(stack.enter_context(serving_app(redirect)), TOKEN))
    assert client.jobs() == ()
    assert client.url == leader


def test_two_standbys_that_name_each_other_do_not_hold_a_request_forever(stack: ExitStack) -> None:
    named: list[Leader] = []
    for _ in range(2):
        app = standby_app(lambda: TOKENS, lambda: named[0], OWN, LeaderLine(None, "standby"))
        named.append(Leader(stack.enter_context(serving_app(app)), "x:1", 1))
    with Client(named[1].url, TOKEN) as client, pytest.raises(ExternalError, match="no coordinator leads now"):
        client.jobs()


def test_a_client_of_an_election_waits_for_the_next_leader(stack: ExitStack, tmp_path: Path) -> None:
    elector = stack.enter_context(announcing(tmp_path))
    elector.announce(Leader("http://127.0.0.1:1", "nobody:1", 1))
    waiting = stack.enter_context(serving_app(standby(None)))
    elected = stack.enter_context(serving(ScriptedCluster()))

    class Moving(FileLocator):
        """The first coordinator is gone, the second one has not taken over yet, the third one leads."""

        found = 0

        def find(self) -> Leader | None:
            self.found += 1
            if self.found == 1:
                return super().find()
            return Leader(waiting if self.found == 2 else elected, "x:1", self.found)

    with Client("", TOKEN, locator=Moving(tmp_path)) as client:
        assert client.jobs() == ()
        assert client.url == elected


def test_a_client_of_an_election_without_a_leader_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ELECTION_SECONDS_MAX", 0.2)
    with (
        Client("", TOKEN, locator=FileLocator(tmp_path)) as client,
        pytest.raises(UnreachableError, match="no coordinator leads this cluster"),
    ):
        client.jobs()
