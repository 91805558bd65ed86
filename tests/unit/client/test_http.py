"""The HTTP client against the real REST API: documents, errors as raised there, waiting, and nobody at home."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.client import http as http_module
from headrace.client.discovery import connect
from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.core.errors import (
    ExternalError,
    InternalError,
    InvalidPipelineError,
    Location,
    Problem,
    UnreachableError,
    UserError,
)
from support.control.scripted_cluster import TOKEN, ScriptedCluster, client_of, serving
from support.processes.running import WAIT_SECONDS
from support.reserved_port import reserved_port

PIPELINE: dict[str, Any] = {
    "name": "counting",
    "sources": {"numbers": {"generator": {"rows": 10, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[Client]:
    with client_of(cluster) as client:
        yield client


def test_a_job_from_submission_to_its_end(client: Client, cluster: ScriptedCluster) -> None:
    job = client.submit(SubmitRequest(pipeline=PIPELINE, parallelism=2, renames={"a": "b"}))
    assert cluster.jobs_by_id[job].request.renames == {"a": "b"}
    assert [(each.job_id, each.name, each.state) for each in client.jobs()] == [(job, "counting", "RUNNING")]
    assert client.status("counting").parallelism == 2
    assert [(each.job_id, each.rows_in_per_s) for each in client.figures()] == [(job, 100.0)]
    assert [len(node.subtasks) for node in client.status_of_nodes(job).nodes] == [0]
    assert [len(node.subtasks) for node in client.status_of_nodes(job, "numbers").nodes] == [2]
    assert client.wait_trigger(client.savepoint(job, "/here")).path == "/here/savepoint-1"
    assert client.wait_trigger(client.rescale(job, 3)).status == "completed"
    assert client.status(job).parallelism == 3
    assert client.checkpoints(job)[1].bytes == 3_000
    assert client.exceptions(job)[0].message == "bad row"
    assert client.logs(job, 5) == ()
    seen: list[str] = []
    stopped = client.stop(job)
    assert client.wait(job, on_status=lambda status: seen.append(status.state)).state == "FINISHED"
    assert (seen[0], seen[-1]) == ("RUNNING", "FINISHED")
    assert client.wait_trigger(stopped).path == "/checkpoints/7"
    again = client.resubmit(job, "/checkpoints/7")
    assert cluster.jobs_by_id[again].request.from_savepoint == "/checkpoints/7"
    assert client.wait_trigger(client.cancel(again)).status == "completed"
    assert client.cluster().slots_free == 3
    assert client.stacks("worker-1") == "== supervisor of worker-1"
    assert client.worker_logs("worker-1") == "== worker worker-1"
    assert client.shutdown().workers[0].worker == "worker-1"


@pytest.mark.parametrize(
    "error",
    [
        UserError("wrong", remedy="do better"),
        ExternalError("away", retry=True),
        InvalidPipelineError(
            [Problem("no column", ("steps", "a"), Location("f.yaml", 3, 7), "name one"), Problem("whole")]
        ),
    ],
)
def test_errors_are_raised_as_they_were_there(client: Client, cluster: ScriptedCluster, error: Any) -> None:
    cluster.refuse = error
    with pytest.raises(type(error)) as raised:
        client.jobs()
    assert str(raised.value) == str(error)
    assert raised.value.retry == error.retry


def test_a_coordinator_that_broke_is_not_this_process_broken(client: Client, cluster: ScriptedCluster) -> None:
    cluster.refuse = InternalError("no such epoch")
    with pytest.raises(ExternalError, match="the coordinator failed: no such epoch\n  its log has"):
        client.jobs()


def test_an_operation_that_fails_raises_why(client: Client, cluster: ScriptedCluster) -> None:
    job = client.submit(SubmitRequest(pipeline=PIPELINE))
    cluster.failing = ExternalError("the disk is full", remedy="make room")
    with pytest.raises(ExternalError, match="the disk is full\n  make room"):
        client.wait_trigger(client.savepoint(job))


def test_waiting_ends_when_it_takes_too_long(client: Client) -> None:
    job = client.submit(SubmitRequest(pipeline=PIPELINE))
    with pytest.raises(ExternalError, match=r"has not ended within 0\.1 s"):
        client.wait(job, timeout_s=0.1)


def test_a_coordinator_that_restarts_is_waited_for(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "AWAY_SECONDS_MAX", WAIT_SECONDS)
    away, seen = threading.Event(), []
    with reserved_port() as port:
        with serving(cluster, port=port) as url:
            client = Client(url, TOKEN)
            job = client.submit(SubmitRequest(pipeline=PIPELINE))
            waiter = threading.Thread(
                target=lambda: seen.append(client.wait(job, on_status=lambda _: away.set()).state)
            )
            waiter.start()
            assert away.wait(WAIT_SECONDS)
        cluster.jobs_by_id[job].state = "FINISHED"
        with serving(cluster, port=port):
            waiter.join(WAIT_SECONDS)
    client.close()
    assert seen == ["FINISHED"]


def test_nobody_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(NOBODY) as client, pytest.raises(UnreachableError, match="no coordinator answers at http://127"):
        client.jobs()
    monkeypatch.setattr(http_module, "AWAY_SECONDS_MAX", 0.0)
    with Client(NOBODY) as client, pytest.raises(UnreachableError):
        client.wait("a")


def test_somebody_else_at_home() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        with Client(url) as client, pytest.raises(UnreachableError, match="no headrace coordinator of this version"):
            client.jobs()
        thread.join()


@pytest.mark.parametrize("url", ["localhost:8480", "ftp://a", "http://", "http://a:b", "nothing"])
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(UserError, match="is no address"):
        Client(url)


def test_a_token_is_sent(cluster: ScriptedCluster) -> None:
    with serving(cluster, "secret") as url:
        with Client(url, "secret") as client:
            assert client.jobs() == ()
            assert client.health().status == "ok"
        for wrong, said in ((None, "wants a token"), ("other", "is not this cluster's")):
            with Client(url, wrong) as client, pytest.raises(UserError, match=said) as refused:
                client.jobs()
            assert "HEADRACE_TOKEN" in str(refused.value)


class TestDiscovery:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("HEADRACE_COORDINATOR", "HEADRACE_TOKEN", "HEADRACE_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
        (tmp_path / "cluster").mkdir()
        return tmp_path / "cluster"

    def test_no_cluster(self) -> None:
        with pytest.raises(UnreachableError, match="headrace cluster start"):
            connect()

    def test_what_is_named_comes_before_what_is_recorded(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (home / "cluster.json").write_text('{"url": "http://recorded:1"}')
        assert connect().url == "http://recorded:1"
        (home / "coordinator.json").write_text('{"url": "http://own:1", "pid": 1}')
        assert connect().url == "http://own:1"
        (home / "coordinator.json").write_text("{half")
        assert connect().url == "http://recorded:1"
        monkeypatch.setenv("HEADRACE_COORDINATOR", "http://variable:1")
        assert connect().url == "http://variable:1"
        assert connect("http://named:1/").url == "http://named:1"

    def test_the_homes_token_is_for_its_own_coordinator(self, home: Path, cluster: ScriptedCluster) -> None:
        (home / "token").write_text("secret\n")
        with serving(cluster, "secret") as url:
            with connect(url) as client, pytest.raises(UserError, match="wants a token"):
                client.jobs()
            (home / "coordinator.json").write_text(json.dumps({"url": url}))
            for named in (None, url, f"{url}/", url.replace("127.0.0.1", "localhost")):
                with connect(named) as client:
                    assert client.jobs() == ()

    def test_a_coordinator_says_where_its_token_lies(self, home: Path, cluster: ScriptedCluster) -> None:
        (home / "token").write_text("of another time")
        (home / "elsewhere").write_text("secret")
        with serving(cluster, "secret") as url:
            (home / "coordinator.json").write_text(json.dumps({"url": url, "token_file": str(home / "elsewhere")}))
            with connect() as client:
                assert client.jobs() == ()

    def test_the_cluster_of_one_job_is_recorded_inside_of_the_home(self, home: Path, cluster: ScriptedCluster) -> None:
        own = home.parent / "clusters" / "counting-1" / "cluster"
        own.mkdir(parents=True)
        (own / "token").write_text("secret")
        with serving(cluster, "secret") as url:
            (own / "coordinator.json").write_text(json.dumps({"url": url}))
            with connect(url) as client:
                assert client.jobs() == ()

    def test_a_token_that_is_given_comes_first(
        self, home: Path, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (home / "token").write_text("another")
        (home / "given").write_text("secret\n")
        with serving(cluster, "secret") as url:
            (home / "coordinator.json").write_text(json.dumps({"url": url}))
            monkeypatch.setenv("HEADRACE_TOKEN_FILE", str(home / "given"))
            with connect() as client:
                assert client.jobs() == ()
            monkeypatch.setenv("HEADRACE_TOKEN", "wrong")
            with connect() as client, pytest.raises(UserError, match="is not this cluster's"):
                client.jobs()
        monkeypatch.delenv("HEADRACE_TOKEN")
        monkeypatch.setenv("HEADRACE_TOKEN_FILE", str(home / "nothing"))
        with pytest.raises(UserError, match="no such file"):
            connect("http://127.0.0.1:1")


def test_a_coordinator_without_tls_is_told_of(cluster: ScriptedCluster) -> None:
    with (
        serving(cluster) as url,
        Client(url.replace("http://", "https://")) as client,
        pytest.raises(UnreachableError, match="it speaks no TLS: write http://"),
    ):
        client.health()
