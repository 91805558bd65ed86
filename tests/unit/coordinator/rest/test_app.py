"""The REST API over real HTTP: documents, statuses, who may ask, and what is refused before it is read."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import BODY_BYTES_MAX
from headrace.coordinator.rest.openapi import TARGET, main, rendered
from headrace.core.errors import ExternalError, InternalError, InvalidPipelineError, Location, Problem, UserError
from support.control.scripted_cluster import AUTHORIZED, METRICS_TOKEN, TOKEN, ScriptedCluster, serving
from support.processes.running import WAIT_SECONDS
from support.repository import ROOT
from support.storage.cuts import job_folder, sales

JSON = {"Content-Type": "application/json"}
PIPELINE: dict[str, Any] = {
    "name": "counting",
    "sources": {"numbers": {"generator": {"rows": 10, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
    "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
}


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()


@pytest.fixture
def http(cluster: ScriptedCluster) -> Iterator[httpx.Client]:
    with serving(cluster) as url, asking(url, AUTHORIZED) as client:
        yield client


@pytest.fixture
def stranger(http: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the same cluster without a token."""
    with asking(str(http.base_url), {}) as client:
        yield client


def asking(url: str, headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=WAIT_SECONDS)


def submitted(http: httpx.Client) -> str:
    answer = http.post("/v1/jobs", json={"pipeline": PIPELINE})
    assert answer.status_code == 201
    job: str = answer.json()["job_id"]
    return job


def test_the_life_of_a_job_in_documents(http: httpx.Client) -> None:
    job = submitted(http)
    (listed,) = http.get("/v1/jobs").json()["jobs"]
    assert {key: listed[key] for key in ("job_id", "name", "state")} == {
        "job_id": job,
        "name": "counting",
        "state": "RUNNING",
    }
    status = http.get("/v1/jobs/counting").json()
    stable = {"job_id", "name", "state", "attempt", "parallelism", "nodes", "checkpoint", "failure"}
    assert stable <= set(status)
    assert status["checkpoint"] == {
        "epoch": 3,
        "completed_at": "2026-01-31T09:00:00.123Z",
        "path": "/c/3",
        "bytes": 10,
    }
    stable = {"node", "kind", "parallelism", "rows_in", "rows_out", "late", "bad", "lag", "watermark"}
    assert stable | {"backpressured", "busy", "subtasks"} <= set(status["nodes"][0])
    begun = http.post(f"/v1/jobs/{job}/stop", json={"savepoint": "/s", "drain": True})
    assert begun.status_code == 202
    assert (begun.json()["status"], begun.json()["path"]) == ("in-progress", None)
    look = f"/v1/jobs/{job}/triggers/{begun.json()['trigger_id']}"
    assert http.get(look).json()["status"] == "in-progress"
    assert http.get(look).json() | {"trigger_id": ""} == {
        "trigger_id": "",
        "job_id": job,
        "kind": "stop",
        "status": "completed",
        "path": "/s/drained-1",
        "error": None,
        "progress": None,
        "audit": None,
    }
    again = http.post(f"/v1/jobs/{job}/cancel", headers=JSON)
    assert again.status_code == 409
    assert again.json()["domain"] == "user"


def test_the_state_of_a_job(
    http: httpx.Client, stranger: httpx.Client, cluster: ScriptedCluster, tmp_path: Path
) -> None:
    job = cluster.add("tills")
    cluster.jobs_by_id[job].storage = str(tmp_path)
    for path in ("state", "state/totals"):
        early = http.get(f"/v1/jobs/{job}/{path}")
        assert (early.status_code, early.json()["message"]) == (409, "the job has no complete checkpoint yet")
        assert stranger.get(f"/v1/jobs/{job}/{path}").status_code == 401
    job_folder(tmp_path, sales(600))
    listed = http.get(f"/v1/jobs/{job}/state").json()
    assert {each["state"] for each in listed["states"] if each["node"] == "hourly"} == {"windows", "time"}
    assert (listed["epoch"], listed["age_ms"], listed["steps"]) == (5, 5_000, ["hourly", "totals"])
    assert listed["positions"][0] == {
        "source": "sales", "topic": "sales", "partition": 0, "position": 200, "finished": False,
    }  # fmt: skip
    one = http.get(f"/v1/jobs/{job}/state/totals", params={"key": ["shop=south", "till=7"]}).json()
    assert (one["state"], one["keys"], one["more"], len(one["rows"])) == (None, ["shop", "till"], False, 1)
    assert (one["rows"][0]["n"], one["columns"]["n"]) == (8, "Int64")
    kept = http.get(f"/v1/jobs/{job}/state/totals", params={"state": "groups", "rows": 3}).json()
    assert (kept["state"], kept["more"], len(kept["rows"])) == ("groups", True, 3)
    refused = http.get(f"/v1/jobs/{job}/state/totals", params={"key": "shops=1"})
    assert (refused.status_code, refused.json()["remedy"]) == (400, "did you mean 'shop'? key columns: shop, till")


def test_a_status_without_subtasks(http: httpx.Client, cluster: ScriptedCluster) -> None:
    job = submitted(http)
    (whole,) = http.get(f"/v1/jobs/{job}").json()["nodes"]
    (short,) = http.get(f"/v1/jobs/{job}", params={"subtasks": "false"}).json()["nodes"]

    assert whole["subtasks"] and short == whole | {"subtasks": [], "partitions": []}
    (named,) = http.get(f"/v1/jobs/{job}", params={"subtasks": "false", "node": whole["node"]}).json()["nodes"]
    (other,) = http.get(f"/v1/jobs/{job}", params={"subtasks": "false", "node": "another"}).json()["nodes"]
    assert (named, other) == (whole, short)


def test_the_figures_of_all_jobs_in_one_document(http: httpx.Client) -> None:
    job = submitted(http)
    (listed,) = http.get("/v1/jobs").json()["jobs"]
    (figures,) = http.get("/v1/figures").json()["jobs"]
    assert (figures["job_id"], figures["rows_in_per_s"], figures["lag"]) == (job, 100.0, 5)
    assert {name: figures[name] for name in listed} == listed
    assert "subtasks" not in figures


def test_the_rest_of_the_routes(http: httpx.Client, cluster: ScriptedCluster) -> None:
    job = submitted(http)
    cluster.jobs_by_id[job].log += [f"line {n}" for n in range(10)]
    assert http.get(f"/v1/jobs/{job}/logs", params={"lines": 2}).json()["lines"] == ["line 8", "line 9"]
    assert http.get(f"/v1/jobs/{job}/logs", params={"after": "7"}).json()["lines"] == ["line 7", "line 8", "line 9"]
    bottleneck = http.get(f"/v1/jobs/{job}/bottleneck").json()
    assert (bottleneck["kind"], bottleneck["node"], bottleneck["subtask"]) == ("slow-sink", "out", None)
    assert [each["epoch"] for each in http.get(f"/v1/jobs/{job}/checkpoints").json()["checkpoints"]] == [4, 3]
    assert http.get(f"/v1/jobs/{job}/exceptions").json()["exceptions"][0]["place"] == "t/0/7"
    assert http.post(f"/v1/jobs/{job}/savepoints", json={}).json()["kind"] == "savepoint"
    assert http.post(f"/v1/jobs/{job}/checkpoints", headers=JSON).json()["kind"] == "checkpoint"
    assert http.post(f"/v1/jobs/{job}/rescale", json={"parallelism": 3}).json()["kind"] == "rescale"
    assert http.get("/v1/cluster").json()["workers"][0]["worker"] == "worker-1"
    stacks = http.post("/v1/workers/worker-1/stacks", headers=JSON).json()
    assert stacks == {"worker": "worker-1", "text": "== supervisor of worker-1"}
    assert http.get("/v1/workers/worker-1/logs").json() == {"worker": "worker-1", "text": "== worker worker-1"}
    assert http.get("/v1/health").json()["status"] == "ok"
    assert http.delete("/v1/cluster").status_code == 202
    assert cluster.ended.is_set()


@pytest.mark.parametrize(
    ("error", "status", "domain"),
    [
        (UserError("wrong", remedy="do better"), 400, "user"),
        (ExternalError("storage is away", retry=True), 503, "external"),
        (InternalError("broken"), 500, "internal"),
    ],
)
def test_errors_are_documents(
    http: httpx.Client, cluster: ScriptedCluster, error: Any, status: int, domain: str
) -> None:
    cluster.refuse = error
    answer = http.get("/v1/jobs")
    assert answer.status_code == status
    body = answer.json()
    assert (body["message"], body["remedy"], body["retry"]) == (error.message, error.remedy, error.retry)
    assert body["domain"] == domain


def test_an_invalid_pipeline_has_its_problems(http: httpx.Client, cluster: ScriptedCluster) -> None:
    cluster.refuse = InvalidPipelineError(
        [Problem("no such column", ("steps", "a"), Location("f.yaml", 3, 7), "name one")]
    )
    answer = http.get("/v1/jobs")
    assert answer.status_code == 400
    assert answer.json()["problems"] == [
        {"message": "no such column", "path": "steps.a", "file": "f.yaml", "line": 3, "column": 7, "remedy": "name one"}
    ]
    unknown = http.post("/v1/jobs", json={"pipeline": {**PIPELINE, "sinks": {}}})
    assert unknown.status_code == 400
    assert unknown.json()["problems"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/jobs/nothing", None, 404),
        ("GET", "/v1/nothing", None, 404),
        ("PUT", "/v1/jobs", {}, 405),
        ("POST", "/v1/jobs", {"pipelin": {}}, 400),
        ("POST", "/v1/jobs", {"pipeline": {}, "code": [{"name": "../a.py", "content": ""}]}, 400),
        ("POST", "/v1/jobs/x/rescale", {"parallelism": 0}, 400),
        ("GET", "/v1/jobs/x/logs?lines=0", None, 400),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    http: httpx.Client, method: str, path: str, body: object, status: int
) -> None:
    answer = http.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json()["domain"] == "user"
    assert answer.json()["message"]


def test_everything_wants_the_token(stranger: httpx.Client) -> None:
    refused = stranger.get("/v1/jobs")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "this cluster wants a token" in refused.json()["message"]
    for place in ("HEADRACE_TOKEN", "HEADRACE_TOKEN_FILE", "$HEADRACE_HOME/cluster/token"):
        assert place in refused.json()["remedy"]
    for wrong in ("Bearer other", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer s\u00e9cret", f"Bearer {TOKEN}x"):
        answer = stranger.get("/v1/cluster", headers=[(b"Authorization", wrong.encode())])
        assert answer.status_code == 401
    assert "is not this cluster's" in answer.json()["message"]
    assert stranger.get("/v1/jobs", headers=AUTHORIZED).status_code == 200


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECTED")


def test_no_route_answers_without_a_token_whatever_the_method(
    cluster: ScriptedCluster, http: httpx.Client, stranger: httpx.Client
) -> None:
    job = submitted(http)
    routes = json.loads(rendered())["paths"]
    assert len(routes) > 15
    for path in [*routes, "/v1/openapi.json", "/", "/docs", "/v1/nothing", "/v1/health/", "/V1/health"]:
        for method in METHODS:
            answer = stranger.request(method, path.replace("{job}", job), headers=JSON)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/json"
    assert cluster.jobs_by_id[job].state == "RUNNING"
    assert not cluster.ended.is_set()


def test_a_request_without_a_token_is_refused_before_its_body_is_read(cluster: ScriptedCluster) -> None:
    with serving(cluster) as url:
        address = urlsplit(url)
        assert address.hostname and address.port
        with socket.create_connection((address.hostname, address.port), WAIT_SECONDS) as raw:
            raw.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
            assert first_line(raw).startswith(b"HTTP/1.1 401")


def test_a_websocket_is_not_opened_without_a_token(stranger: httpx.Client) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert stranger.get("/v1/jobs", headers=upgrade).status_code == 401


def test_the_metrics_token_reads_health_and_metrics_alone(http: httpx.Client, stranger: httpx.Client) -> None:
    job = submitted(http)
    monitoring = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    assert stranger.get("/v1/health", headers=monitoring).json()["status"] == "ok"
    assert f'job="{job}"' in stranger.get("/v1/metrics", headers=monitoring).text
    others = [("GET", "/v1/jobs"), ("GET", "/v1/openapi.json"), ("POST", "/v1/metrics"), ("DELETE", "/v1/cluster")]
    for method, path in [*others, ("POST", f"/v1/jobs/{job}/cancel"), ("GET", "/v1/metrics/../jobs")]:
        answer = stranger.request(method, path, headers=monitoring | JSON)
        assert answer.status_code == 403, path
        assert "the metrics token" in answer.json()["message"]
    assert http.get(f"/v1/jobs/{job}").json()["state"] == "RUNNING"


def test_no_api_is_made_without_tokens() -> None:
    for full, metrics in (("", "m"), ("t", "")):
        with pytest.raises(InternalError, match="needs both tokens"):
            Tokens(full, metrics)


def test_a_page_that_gives_this_address_a_name_of_its_own_has_no_token(stranger: httpx.Client) -> None:
    rebound = {"Host": "attacker.example", "Origin": "http://attacker.example", "Sec-Fetch-Site": "same-origin"}
    for path in ("/v1/jobs", "/v1/health", "/v1/metrics"):
        assert stranger.get(path, headers=rebound).status_code == 401


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_post_that_any_web_page_may_send_does_nothing(
    http: httpx.Client, cluster: ScriptedCluster, content_type: str
) -> None:
    job = submitted(http)
    headers = {"Content-Type": content_type} if content_type else {}
    answer = http.post("/v1/jobs", content=json.dumps({"pipeline": PIPELINE}), headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["message"]
    for operation in ("cancel", "stop", "savepoints", "rescale", "resubmit", "transactions", "audit", "dead-letters"):
        assert http.post(f"/v1/jobs/{job}/{operation}", headers=headers).status_code == 415
    assert list(cluster.jobs_by_id) == [job]
    assert http.get(f"/v1/jobs/{job}").json()["state"] == "RUNNING"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    http: httpx.Client, cluster: ScriptedCluster, headers: dict[str, str]
) -> None:
    job = submitted(http)
    answer = http.post(f"/v1/jobs/{job}/cancel", headers=headers | JSON)
    assert answer.status_code == 403
    assert answer.json()["domain"] == "user"
    assert http.delete("/v1/cluster", headers=headers).status_code == 403
    assert http.get(f"/v1/jobs/{job}").json()["state"] == "RUNNING"
    assert not cluster.ended.is_set()


def test_a_page_of_the_coordinator_and_a_link_to_it_are_answered(http: httpx.Client) -> None:
    own = f"{http.base_url.scheme}://{http.base_url.netloc.decode()}"
    job = submitted(http)
    headers = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
    assert http.post(f"/v1/jobs/{job}/cancel", headers=headers | JSON).status_code == 202
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert http.get("/v1/jobs", headers=link).status_code == 200
    assert http.get("/v1/jobs", headers={"Sec-Fetch-Site": "none"}).status_code == 200
    assert http.get("/v1/jobs", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


POST = (
    f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
)


def test_a_body_that_is_too_large_is_refused_unread(cluster: ScriptedCluster) -> None:
    with serving(cluster) as url:
        address = urlsplit(url)
        assert address.hostname and address.port
        with socket.create_connection((address.hostname, address.port)) as raw:
            length = BODY_BYTES_MAX + 1
            raw.sendall(f"{POST}Content-Length: {length}\r\n\r\n".encode())
            assert first_line(raw).startswith(b"HTTP/1.1 413")
        with socket.create_connection((address.hostname, address.port)) as raw:
            raw.sendall(f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode())
            assert first_line(raw).startswith(b"HTTP/1.1 411")


def first_line(raw: socket.socket) -> bytes:
    with raw.makefile("rb") as answer:
        return answer.readline()


def test_the_committed_openapi_document_is_current(tmp_path: Path) -> None:
    assert (ROOT / TARGET).read_text(encoding="utf-8") == rendered(), "run: python -m headrace.coordinator.rest.openapi"
    main([str(tmp_path / "schema.json")])
    document = json.loads((tmp_path / "schema.json").read_text())
    assert "/v1/jobs/{job}/triggers/{trigger_id}" in document["paths"]
