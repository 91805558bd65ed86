"""What a standby answers, a client that follows it to the leader, and a leader in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from headrace.client import connection
from headrace.client.http import Client
from headrace.coordinator.leading.standby_app import holding_app, standby_app
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.core.errors import ExternalError, UnreachableError
from headrace.leadership.file_election import FileLocator
from headrace.leadership.leader import LEADER_HEADER, Leader
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
    return standby_app(lambda: tokens, lambda: leader, OWN)


def test_a_standby_names_the_leader_to_whom_shows_the_token(asking: Asking) -> None:
    leader = Leader("http://leader:8480", "leader:8481", 4)
    answer = asking(standby(leader)).get("/v1/jobs/a?b=c")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://leader:8480/v1/jobs/a?b=c")
    assert answer.headers[LEADER_HEADER] == leader.url
    assert leader.url in answer.json()["message"]
    stranger = asking(standby(leader), "").get("/v1/jobs")
    assert (stranger.status_code, leader.url in stranger.text) == (401, False)
    assert asking(standby(leader), METRICS_TOKEN).get("/v1/jobs").status_code == 403


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
    answer = asking(standby(leader, tokens)).post("/v1/jobs")
    assert (answer.status_code, answer.json()["retry"], answer.headers[LEADER_HEADER]) == (503, True, "")
    assert said in answer.json()["message"]


def test_a_leader_in_doubt_answers_what_changes_nothing(asking: Asking) -> None:
    held = asking(holding_app(rest_app(ScriptedCluster(), TOKENS), "cut off"))
    assert held.get("/v1/jobs").status_code == 200
    refused = held.post("/v1/jobs/a/cancel", headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["retry"]) == (503, True)
    assert "in doubt: cut off" in refused.json()["message"]


def test_a_client_follows_a_standby_to_the_leader(stack: ExitStack) -> None:
    cluster = ScriptedCluster()
    url = stack.enter_context(serving(cluster))
    leader = Leader(url, "leader:2", 4)
    client = stack.enter_context(
        Client(stack.enter_context(serving_app(standby_app(lambda: TOKENS, lambda: leader, OWN))), TOKEN)
    )
    assert client.jobs() == ()
    assert client.url == url
    assert client.cluster().cluster_id


def test_two_standbys_that_name_each_other_do_not_hold_a_client_forever(stack: ExitStack) -> None:
    named: list[Leader] = []
    for _ in range(2):
        url = stack.enter_context(serving_app(standby_app(lambda: TOKENS, lambda: named[0], OWN)))
        named.append(Leader(url, "x:1", 1))
    with Client(named[1].url, TOKEN) as client, pytest.raises(ExternalError, match="is a standby"):
        client.jobs()


def test_a_client_of_an_election_waits_for_the_next_leader(stack: ExitStack, tmp_path: Path) -> None:
    elector = stack.enter_context(announcing(tmp_path))
    elector.announce(Leader("http://127.0.0.1:1", "nobody:1", 1))
    waiting = stack.enter_context(serving_app(standby(None)))
    leading = stack.enter_context(serving(ScriptedCluster()))

    class Moving(FileLocator):
        """The first coordinator is gone, the second one has not taken over yet, the third one leads."""

        found = 0

        def find(self) -> Leader | None:
            self.found += 1
            if self.found == 1:
                return super().find()
            return Leader(waiting if self.found == 2 else leading, "x:1", self.found)

    with Client("", TOKEN, locator=Moving(tmp_path)) as client:
        assert client.jobs() == ()
        assert client.url == leading


def test_a_client_of_an_election_without_a_leader_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ELECTION_SECONDS_MAX", 0.2)
    with (
        Client("", TOKEN, locator=FileLocator(tmp_path)) as client,
        pytest.raises(UnreachableError, match="no coordinator leads this cluster"),
    ):
        client.jobs()
