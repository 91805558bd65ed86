"""`headrace cluster`, and what is submitted to it, as processes of this host: killed, mended, stopped."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.stores.file import FileStore
from headrace.coordinator.ledger.ledger import Ledger
from headrace.coordinator.store.ledger_store import LedgerStore
from headrace.core.clock import SystemClock
from support.clusters.local import LocalCluster, home_of_processes, processes_of
from support.clusters.session import kill
from support.clusters.strangers import control_answers, rest_statuses
from support.patience import CLUSTER_TIMES
from support.processes.running import finish, start, wait_until
from support.reserved_port import reserved_port
from support.storage.permissions import mode_of, open_to_others

pytestmark = pytest.mark.turns(3)

ENDLESS = """\
name: counting
checkpoint: {interval: 200ms}
sources:
  numbers:
    generator: {rate: 2000, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  doubled:
    from: numbers
    map: {function: "shop.functions:doubled", schema: {n: int64}}
sinks:
  out:
    from: doubled
    files: {path: out}
    format: json
"""
BOUNDED = ENDLESS.replace("rate: 2000", "rows: 5000").replace("path: out", "path: bounded")
FUNCTIONS = """\
from pathlib import Path

import polars as pl

FACTOR = int((Path(__file__).parent / "factor.txt").read_text())


def doubled(rows):
    return rows.with_columns(pl.col("n") * FACTOR)
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Nobody is lost there for being slow."""
    for name, value in CLUSTER_TIMES.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    (tmp_path / "bounded.yaml").write_text(BOUNDED)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "shop" / "factor.txt").write_text("2")
    with home_of_processes(tmp_path) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """Others may read what is written, unless it is kept from them."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def written(folder: Path) -> set[int]:
    return {json.loads(line)["n"] for file in folder.glob("part-*") for line in file.read_text().splitlines()}


def test_a_cluster_is_started_mended_and_stopped(cluster: LocalCluster) -> None:
    first = cluster.json("cluster", "start", "--workers", "2", "--slots", "1")
    assert first["started"] == ["coordinator", "worker-1", "worker-2"]
    assert cluster.json("cluster", "start")["started"] == []
    assert "2 workers with 1 slot each" in cluster.run("cluster", "start").out
    refused = cluster.run("cluster", "start", "--slots", "2", code=2)
    assert "headrace cluster stop" in refused.err
    require_token(cluster, first["url"])
    kill(first["coordinator"]["pid"], first["workers"][0]["pid"])
    broken = cluster.json("cluster", "status", code=3)
    assert (broken["dead"], broken["running"]) == (["coordinator", "worker-1"], ["worker-2"])
    mended = cluster.json("cluster", "start")
    assert mended["started"] == ["coordinator", "worker-1"]
    assert (mended["url"], mended["workers"][1]) == (first["url"], first["workers"][1])
    require_token(cluster, mended["url"])
    with cluster.client() as client:
        wait_until(lambda: client.cluster().slots_free == 2, "the slots to be up")
    assert cluster.json("cluster", "stop") == {"stopped": True}
    assert processes_of(cluster.home) == []
    kept = sorted(each.name for each in (cluster.home / "cluster").iterdir())
    assert kept == ["id", "ledger", "lock", "logs", "metrics-token", "shape.json", "token"]
    assert cluster.json("cluster", "stop") == {"stopped": False}
    assert cluster.json("cluster", "status", code=3)["running"] == []


def test_a_cluster_keeps_its_ports_and_its_size_over_a_stop(cluster: LocalCluster) -> None:
    with reserved_port() as port:
        first = cluster.json("cluster", "start", "--workers", "2", "--slots", "2", "--port", str(port))
        running = cluster.run("cluster", "start", "--port", "1", code=2)
        cluster.run("cluster", "stop")
        again = cluster.json("cluster", "start")
        cluster.run("cluster", "stop")

        # others listen there now
        with socket.create_server(("127.0.0.1", port)):
            refused = cluster.run("cluster", "start", "--port", str(port), code=2)
            moved = cluster.json("cluster", "start", "--workers", "1", "--slots", "1")

    assert first["url"] == again["url"] == f"http://127.0.0.1:{port}"
    assert first["url"] in running.err and "headrace cluster stop" in running.err
    assert (len(again["workers"]), again["slots"]) == (2, 2)
    assert f"--port {port}: another process listens there" in refused.err
    assert moved["url"] != first["url"]
    assert (len(moved["workers"]), moved["slots"]) == (1, 1)


def require_token(cluster: LocalCluster, url: str) -> None:
    """Commands of the home know the token, by whatever name they call the coordinator; others are refused."""
    tokens = {name: (cluster.home / "cluster" / name).read_text().strip() for name in ("token", "metrics-token")}
    assert len(set(tokens.values())) == 2
    assert cluster.json("list") == cluster.json("list", "--coordinator", url) == {"jobs": []}
    assert _get(f"{url}/v1/health", tokens["metrics-token"])["status"] == "ok"
    assert _get(f"{url}/v1/jobs", tokens["token"]) == {"jobs": []}
    for path, token, status in (("health", "", 401), ("jobs", "", 401), ("jobs", tokens["metrics-token"], 403)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            _get(f"{url}/v1/{path}", token)
        assert refused.value.code == status
        refused.value.close()
    assert {(cluster.home / "cluster" / name).stat().st_mode & 0o777 for name in tokens} == {0o600}


def test_a_cluster_keeps_its_token_and_is_not_joined_by_processes_of_another_one(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cluster.home / "cluster" / "token"
    # of another cluster, as a shell may have it: nothing that starts here takes it
    monkeypatch.setenv("HEADRACE_TOKEN", "of another cluster")
    started = cluster.json("cluster", "start", "--workers", "1", "--slots", "1", "--token")
    token = file.read_text()
    refused = cluster.run("list", code=2)
    assert "is not this cluster's" in refused.err
    assert "HEADRACE_TOKEN" in refused.err
    assert "$HEADRACE_HOME/cluster/token" in refused.err
    grpc = json.loads((cluster.home / "cluster" / "coordinator.json").read_text())["grpc"]
    assert set(rest_statuses(started["url"]).values()) == {401}
    assert set(control_answers(grpc)) <= {"nonce", "refused"}
    stranger = cluster.run("worker", "--coordinator", grpc, "--id", "stranger", "--slots", "1", code=2)
    assert "its token is not this cluster's" in stranger.err
    assert "--token-file FILE or HEADRACE_TOKEN" in stranger.err
    monkeypatch.delenv("HEADRACE_TOKEN")
    # as a cluster that an earlier version started: it runs, and there is no token
    file.unlink()
    refused = cluster.run("cluster", "start", code=2)
    assert "headrace cluster stop" in refused.err
    assert not file.exists()
    file.write_text(token)
    kill(started["coordinator"]["pid"])
    assert cluster.json("cluster", "start")["started"] == ["coordinator"]
    assert cluster.json("list") == {"jobs": []}
    assert (file.read_text(), file.stat().st_mode & 0o777) == (token, 0o600)
    cluster.run("cluster", "stop")
    assert file.read_text() == token


def test_a_start_that_fails_leaves_nothing_behind(cluster: LocalCluster) -> None:
    cluster.home.mkdir()
    (cluster.home / "workers").write_text("in the way of the workers' folders")
    failed = cluster.run("cluster", "start", code=1)
    assert "worker-1 has ended while it started" in failed.err
    assert "worker-1.log" in failed.err
    # a coordinator that was ended before it handles signals leaves its template to the system
    wait_until(lambda: processes_of(cluster.home) == [], "no process to be left")
    (cluster.home / "workers").unlink()
    assert cluster.json("cluster", "start")["started"] == ["coordinator", "worker-1"]


def reasons(cluster: LocalCluster, job: str) -> set[str]:
    """Why attempts of a job have begun, by the history that its coordinator keeps."""
    return {attempt.reason for attempt in ledger_of(cluster.home).jobs[job].history.attempts}


def ledger_of(home: Path) -> Ledger:
    """What the ledger of a home has, read beside its coordinator."""
    return LedgerStore(FileStore(str(home / "cluster")), "reader", SystemClock()).load()


def test_a_job_with_code_outlives_its_coordinator_and_an_upgrade_that_cannot_run(cluster: LocalCluster) -> None:
    started = cluster.json("cluster", "start", "--workers", "1", "--slots", "2")
    first = cluster.json("submit", "endless.yaml")["job_id"]
    (session,) = cluster.json("cluster", "list")["clusters"]
    assert (session["kind"], session["state"], session["jobs_running"]) == ("session", "answers", 1)
    cluster.wait_status(first, lambda status: status.checkpoint is not None, "to have a checkpoint")
    kill(started["coordinator"]["pid"])
    assert cluster.run("status", first, code=3).out == ""
    assert cluster.json("cluster", "start")["started"] == ["coordinator"]
    assert cluster.wait_state(first, "RUNNING").attempt >= 2
    assert cluster.run("rescale", first, "--parallelism", "2").out.startswith(f"{first}: RUNNING with parallelism 2")
    # the coordinator writes it behind the job
    wait_until(lambda: {"submitted", "coordinator", "rescale"} <= reasons(cluster, first), "its history to be kept")

    with cluster.client() as client:
        # where the coordinator keeps them
        inside = client.wait_trigger(client.savepoint(first)).path
    assert inside is not None
    assert Path(inside).is_relative_to(cluster.home)
    assert open_to_others(cluster.home) == []

    again = upgrade_refused(cluster, first)
    (cluster.folder / "shop" / "factor.txt").write_text("-2")
    third = cluster.json("upgrade", again, "endless.yaml")["job_id"]
    cluster.wait_state(third, "RUNNING")
    wait_until(lambda: min(written(cluster.folder / "out"), default=0) < 0, "rows of the new code")
    following = start(["logs", third, "--follow"], cluster.folder)
    assert following.stdout is not None
    assert third in following.stdout.readline()
    looked = [cluster.json("state", "list", "counting", "--fresh") for _ in range(2)]
    assert [(each["kind"], each["job_id"]) for each in looked] == [("checkpoint", third)] * 2
    assert looked[0]["epoch"] < looked[1]["epoch"], "each is a new one"
    path = cluster.json("stop", "counting", "--savepoint", "kept")["path"]
    followed = finish(following)
    assert (followed.code, followed.err) == (0, "")
    assert "FINISHED" in followed.out, "what is logged after the first look"
    assert Path(path).parent == cluster.folder / "kept"
    assert [each["state"] for each in cluster.json("list")["jobs"]] == ["FINISHED", "FINISHED", "FAILED", "FINISHED"]
    rows = sorted(abs(row) for row in written(cluster.folder / "out"))
    assert rows == list(range(0, 2 * len(rows), 2)), "from job to job no row is lost or repeated"
    listed = cluster.json("state", "list", path)
    assert listed["sources"]["numbers"]["splits"][0]["position"] == len(rows)
    assert open_to_others(cluster.home) == []
    # what the user named elsewhere is as the umask lets it
    outside = [path for folder in ("kept", "out") for path in (cluster.folder / folder).rglob("*")]
    assert {mode_of(path) for path in outside} == {0o644, 0o755}


def upgrade_refused(cluster: LocalCluster, job: str) -> str:
    """An upgrade to code that does not exist gives way to the old pipeline; returns the job that runs it."""
    (cluster.folder / "wrong.yaml").write_text(ENDLESS.replace("functions:doubled", "functions:gone"))
    refused = cluster.json("upgrade", job, "wrong.yaml", "--savepoint", "kept", code=2)
    assert "gone" in refused["refused"]
    again = str(refused["job_id"])
    cluster.wait_state(again, "RUNNING")
    return again


def test_a_job_with_a_cluster_of_its_own(cluster: LocalCluster) -> None:
    alone = cluster.json("submit", "endless.yaml", "--mode", "per-job")
    own = Path(alone["home"])
    (listed,) = cluster.json("cluster", "list")["clusters"]
    assert (listed["name"], listed["kind"], listed["state"]) == (own.name, "one job", "answers")
    assert (listed["jobs_running"], listed["url"]) == (1, alone["coordinator"])
    wait_until(lambda: len(written(cluster.folder / "out")) > 100, "rows")
    cluster.json("stop", alone["job_id"], "--coordinator", listed["url"])
    wait_until(lambda: processes_of(cluster.home) == [], "the cluster to end with its job")
    assert cluster.json("cluster", "list")["clusters"] == []
    rows = written(cluster.folder / "out")
    assert rows == set(range(0, 2 * len(rows), 2))
    assert {(own / "cluster" / name).stat().st_mode & 0o777 for name in ("token", "metrics-token")} == {0o600}
    assert ledger_of(own).jobs[alone["job_id"]].result is not None


def test_an_application_has_a_cluster_of_its_own(cluster: LocalCluster) -> None:
    (cluster.folder / "app.py").write_text(
        "import headrace as hr\n"
        "state = hr.wait(hr.submit('bounded.yaml')).state\n"
        "open('state.txt', 'w').write(state)\n"
        "raise SystemExit(7)\n"
    )
    done = cluster.json("submit", "app.py", "--mode", "application", "--parallelism", "1", "--wait", code=1)
    assert done["exit_code"] == 7
    assert (cluster.folder / "state.txt").read_text() == "FINISHED"
    assert processes_of(cluster.home) == []


def _get(url: str, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return json.load(answer)
