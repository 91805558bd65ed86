"""Passwords of a pipeline and tokens of a cluster are where they have to be, and nowhere else.

A job reads from Kafka with a password and writes into PostgreSQL with another one; others fail with theirs. Then all
that a user of the host, of the REST API or of a savepoint can see is searched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from headrace_dev.broker.broker import EmbeddedBroker
from support.clusters.local import LocalCluster, home_of_processes, processes_of
from support.kafka.broker import create_topic, produce, unique_topic
from support.patience import CLUSTER_TIMES
from support.processes.running import WAIT_SECONDS, wait_until
from support.storage.permissions import mode_of
from support.storage.postgres import PASSWORD, Postgres
from support.storage.sql_tables import Tables

pytestmark = pytest.mark.turns(2)

KAFKA_PASSWORD, WRONG_PASSWORD, MISPLACED = "kafka-Pa55word", "wrong-Pa55word", "misplaced-Pa55word"
PIPELINE = """\
name: {name}
checkpoint: {{interval: 200ms}}
restart: {{strategy: none}}
sources:
  given:
    kafka:
      brokers: "${{BROKERS}}"
      topic: "{topic}"
      start: earliest
      properties:
        security.protocol: {protocol}
        sasl.mechanism: PLAIN
        sasl.username: reader
        sasl.password: "${{KAFKA_PASSWORD}}"
        socket.connection.setup.timeout.ms: 2000
    format: json
    schema: {{n: int64}}
steps:
  doubled:
    from: given
    map: {{function: "functions:doubled", schema: {{n: int64}}}}
sinks:
  out:
    from: doubled
    sql: {{url: "${{{url}}}", table: numbers, create_table: true, delivery: exactly-once}}
"""
FUNCTIONS = "def doubled(rows):\n    return rows\n"
HOLDERS = ("cluster/key", "cluster/token", "cluster/metrics-token")
"""Files of a home that hold secrets, as docs/operations.md says."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    for name, value in CLUSTER_TIMES.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    with home_of_processes(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def environment(broker: EmbeddedBroker, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets what pipelines name; gives the URL of the database."""
    url = postgres.url(postgres.create_database())
    assert PASSWORD.replace(" ", "%20") in url or PASSWORD.replace(" ", "+") in url
    settings = {"BROKERS": broker.bootstrap, "KAFKA_PASSWORD": KAFKA_PASSWORD, "GOOD_URL": url}
    wrong = url.replace(url.partition("://")[2].partition("@")[0], f"headrace:{WRONG_PASSWORD}")
    for name, value in (settings | {"WRONG_URL": wrong}).items():
        monkeypatch.setenv(name, value)
    return url


def secrets_of(home: Path, url: str) -> list[str]:
    tokens = [(home / "cluster" / name).read_text().strip() for name in ("token", "metrics-token")]
    quoted = url.partition("://")[2].partition("@")[0].partition(":")[2]
    return [KAFKA_PASSWORD, WRONG_PASSWORD, MISPLACED, PASSWORD, quoted, *tokens]


def test_no_secret_is_seen_where_it_need_not_be(
    cluster: LocalCluster, environment: str, broker: EmbeddedBroker
) -> None:
    topic = unique_topic("numbers")
    create_topic(broker, topic)
    produce(broker, topic, [f'{{"n": {n}}}' for n in (1, 2, 3)])
    cluster.json("cluster", "start", "--workers", "1", "--slots", "2")
    secrets = secrets_of(cluster.home, environment)
    said: list[str] = []

    good = pipeline(cluster.folder, "good", topic)
    job = cluster.json("submit", good)["job_id"]
    tables = Tables(environment)
    wait_until(lambda: rows(tables) == [1, 2, 3], "the rows to be in the table")
    tables.close()
    cluster.wait_status(job, lambda status: status.checkpoint is not None, "to have a checkpoint")
    inside = cluster.json("savepoint", job)["path"]
    outside = cluster.json("savepoint", job, "kept")["path"]
    assert Path(inside).is_relative_to(cluster.home)

    for name, change in (("database", {"url": "WRONG_URL"}), ("login", {"protocol": "SASL_PLAINTEXT"})):
        done = cluster.run("submit", pipeline(cluster.folder, name, topic, **change), "--wait", code=1)
        said += [done.out, done.err]
    said += misplaced(cluster, good)

    for command in (("status", job, "--exceptions"), ("state", "list", outside), ("explain", good), ("list",)):
        done = cluster.run(*command)
        said += [done.out, done.err]
    # another test beside this one may well show its database's URL
    processes = {pid: line for pid in processes_of(cluster.home) if (line := command_line(pid))}
    assert any("headrace-coordinator" in line for line in processes.values())
    answers = rest_answers(cluster)

    assert len(answers) > 20
    assert found(secrets, enumerate(said)) == []
    assert found(secrets, answers.items()) == []
    assert found(secrets, processes.items()) == []
    assert found_in_files(secrets, cluster.folder / "kept") == []
    cluster.run("cluster", "stop")
    holders = {path for pattern in HOLDERS for path in cluster.home.glob(pattern)}
    assert found_in_files(secrets, cluster.home, holders) == []
    assert {mode_of(path) for path in holders} == {0o600}
    assert found_in_files(secrets, cluster.home / "cluster", set()), "a search finds what is there"


def pipeline(folder: Path, name: str, topic: str, *, protocol: str = "PLAINTEXT", url: str = "GOOD_URL") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(PIPELINE.format(name=name, topic=topic, protocol=protocol, url=url))
    return str(file)


def rows(tables: Tables) -> list[int]:
    try:
        return sorted(n for (n,) in tables.rows("numbers", "n"))
    except Exception:
        return []


def misplaced(cluster: LocalCluster, good: str) -> list[str]:
    """What is said of pipelines that are refused, with a password where none belongs; by the command and by REST."""
    said: list[str] = []
    text = Path(good).read_text()
    for number, (old, new) in enumerate(
        (
            ('"${GOOD_URL}"', f'"{MISPLACED}"'),
            ('"${GOOD_URL}"', f'"postgres://u:{MISPLACED}@h/d"'),
            ('sasl.password: "${KAFKA_PASSWORD}"', f"sasl.password: [{MISPLACED}]"),
            ("sasl.mechanism: PLAIN", f"enable.auto.commit: {MISPLACED}"),
        )
    ):
        file = cluster.folder / f"wrong-{number}.yaml"
        file.write_text(text.replace(old, new))
        done = cluster.run("submit", str(file), code=2)
        said += [done.out, done.err]
    form = {"name": "x", "sources": {}, "sinks": {"out": {"from": "a", "sql": {"url": MISPLACED, "table": "t"}}}}
    with rest(cluster) as http:
        for body in ({"pipeline": form}, {"pipeline": MISPLACED}, {"pipeline": form, "claim": MISPLACED}):
            answer = http.post("/v1/jobs", json=body)
            assert answer.status_code == 400
            said.append(answer.text)
    return said


def rest(cluster: LocalCluster) -> httpx.Client:
    published = json.loads((cluster.home / "cluster" / "coordinator.json").read_text())
    headers = {"Authorization": f"Bearer {(cluster.home / 'cluster' / 'token').read_text().strip()}"}
    return httpx.Client(base_url=published["url"], headers=headers, timeout=WAIT_SECONDS, trust_env=False)


def rest_answers(cluster: LocalCluster) -> dict[str, str]:
    """What every route that reads answers, of every job."""
    with rest(cluster) as http:
        routes = http.get("/v1/openapi.json").json()["paths"]
        jobs = [each["job_id"] for each in http.get("/v1/jobs").json()["jobs"]]
        paths = [route for route, methods in routes.items() if "get" in methods and "trigger_id" not in route]
        asked = [path.replace("{job}", job) for path in paths for job in (jobs if "{job}" in path else jobs[:1])]
        answers = {path: http.get(path).text for path in [*asked, "/v1/openapi.json"]}
        for job in jobs:
            path = f"/v1/jobs/{job}/dead-letters"
            answers[f"POST {path}"] = http.post(path, json={}).text
    return answers


def command_line(pid: int) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return ""


def found(secrets: Iterable[str], texts: Iterable[tuple[object, str]]) -> list[str]:
    """Secrets in texts, each with the place and the words around it."""
    return [
        f"{place}: ..{text[max(text.index(secret) - 80, 0) : text.index(secret) + 80]}.."
        for place, text in texts
        for secret in secrets
        if secret in text
    ]


def found_in_files(secrets: Iterable[str], folder: Path, but: Iterable[Path] = ()) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path not in set(but)]
    return found(secrets, ((path, path.read_bytes().decode(errors="replace")) for path in files))
