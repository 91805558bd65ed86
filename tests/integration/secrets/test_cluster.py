"""Jobs with mistakes in values of variables on a cluster: no log, error, answer, file or process list shows one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.client.discovery import recorded_token
from headrace.client.models import FINAL_STATES
from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster, running_cluster
from support.kafka.broker import create_topic, produce, unique_topic
from support.planted.pipelines import everything
from support.planted.secrets import mistakes, planted, shown_in, shown_in_files
from support.processes.running import wait_until

MISTAKES = 100
RUNNING = 20
"""Pipelines that are right, and fail or end while they run."""
PATHS = ("", "/exceptions", "/checkpoints", "/logs?lines=1000", "/bottleneck")
FAILING = (
    "cast(concat('{0}', word) as int64)",
    "cast('{0}' as int64) + n",
    "n + length('{0}')",
    "case when word = '{0}' then 1 else 2 end",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("p"), workers=1, slots=2) as running:
        yield running


@pytest.mark.full
def test_no_secret_is_shown_anywhere(
    cluster: Cluster, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, secret in planted().items():
        monkeypatch.setenv(name, secret)
    topic = create_topic(broker, unique_topic())
    produce(broker, topic, ["1,one,2024-01-01T00:00:00Z", "0,two,2024-01-01T00:00:01Z"])
    pipeline = everything(broker.bootstrap, topic, str(tmp_path))
    drawn = random.Random(11)
    texts = [text for text, _ in mistakes(pipeline, MISTAKES, seed=7)]
    for number in range(RUNNING):
        pipeline["steps"]["counted"]["with_columns"]["m"] = drawn.choice(FAILING).format(f"${{VARIABLE_{number}}}")
        texts.append(json.dumps(pipeline))
    for number, text in enumerate(texts):
        file = cluster.folder / "p.yaml"
        file.write_text(text)
        verb = ("run", "p.yaml", "--json") if number % 10 == 9 else ("submit", "p.yaml")
        ended = cluster.headrace(*verb)
        assert not shown_in(ended.out + ended.err), (text, ended)
        assert not any(shown_in(line) for line in cluster.processes().values())
    saved = save_and_stop(cluster, pipeline)
    client = cluster.client
    jobs = [job.job_id for job in client.jobs()]
    assert len(jobs) > RUNNING / 2
    wait_until(lambda: all(client.status(job).state in FINAL_STATES for job in jobs), "every job has ended")
    for job in jobs:
        for path in PATHS:
            assert not shown_in(asked(cluster, f"/v1/jobs/{job}{path}")), (job, path)
        seen = cluster.headrace("status", job)
        assert not shown_in(seen.out + seen.err + "".join(cluster.headrace("logs", job).out)), job
    for path in ("jobs", "figures", "cluster", "metrics"):
        assert not shown_in(asked(cluster, f"/v1/{path}")), path
    assert list(saved.rglob("manifest.json"))
    assert not shown_in_files(cluster.folder), "logs, journals, checkpoints, ledger and runs below the home"


def save_and_stop(cluster: Cluster, pipeline: dict[str, Any]) -> Path:
    """Runs a job whose pipeline is right and full of secrets; returns the folder of the savepoint that stopped it."""
    pipeline["sources"]["numbers"]["kafka"].pop("stop")
    pipeline["sources"]["numbers"]["kafka"]["properties"] |= {
        "client.rack": "${VARIABLE_2}",
        "ssl.key.password": "${VARIABLE_3}",
    }
    pipeline["steps"]["chosen"]["filter"] = "n > 0 and word <> '${VARIABLE_0}'"
    pipeline["steps"]["counted"]["with_columns"]["m"] = "n + length('${VARIABLE_7}')"
    (cluster.folder / "p.yaml").write_text(json.dumps(pipeline))
    job = cluster.headrace("submit", "p.yaml").out.strip()
    cluster.wait_state(job, "RUNNING")
    wait_until(lambda: bool(cluster.client.checkpoints(job)), "it has a checkpoint")
    saved = cluster.folder / "saved"
    assert cluster.headrace("savepoint", job, str(saved)).code == 0
    assert cluster.headrace("stop", job, "--savepoint", str(saved)).code == 0
    return saved


def asked(cluster: Cluster, path: str) -> str:
    token = recorded_token(cluster.record_home)
    return httpx.get(f"{cluster.client.url}{path}", headers={"Authorization": f"Bearer {token}"}).text
