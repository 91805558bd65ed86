"""Jobs of a session as its users see them: names, exit codes, JSON, failures, and what outlives the coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster, kill
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

ENDLESS = """\
name: {name}
checkpoint: {{interval: 500ms}}
sources:
  numbers:
    generator: {{rate: 200, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
steps:
  sums:
    from: numbers
    aggregate: {{total: sum(n)}}
sinks:
  out:
    from: sums
    print: {{}}
    format: json
"""
POISONED = """\
name: poisoned
checkpoint: {{interval: 500ms}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{n: int64 not null}}
sinks:
  out:
    from: numbers
    print: {{}}
    format: json
"""
NODE_FIELDS = {
    *("node", "kind", "parallelism", "rows_in", "rows_out", "late", "bad", "lag", "watermark"),
    *("backpressured", "busy", "subtasks"),
}


def submitted(cluster: Cluster, text: str, *arguments: str) -> str:
    """A job's id, once it runs."""
    path = cluster.folder / "job.yaml"
    path.write_text(text)
    done = cluster.headrace("submit", str(path), "--json", *arguments)
    assert done.code == 0, done.err
    assert set(done.json) == {"job_id"}
    cluster.wait_state(done.json["job_id"], "RUNNING")
    return str(done.json["job_id"])


def test_names_prefixes_duplicates_and_documents(cluster: Cluster) -> None:
    first = submitted(cluster, ENDLESS.format(name="twins"))

    refused = cluster.headrace("submit", str(cluster.folder / "job.yaml"))
    assert refused.code == 2 and "--allow-duplicate" in refused.err
    _require_documents(cluster, first)

    second = submitted(cluster, ENDLESS.format(name="twins"), "--allow-duplicate")
    ambiguous = cluster.headrace("cancel", "twins")
    assert ambiguous.code == 2 and first in ambiguous.err and second in ambiguous.err

    saved = cluster.headrace("savepoint", first, "saved", "--json")
    stopped = cluster.headrace("stop", first, "--savepoint", "saved", "--json")
    assert Path(saved.json["path"]).is_dir() and Path(stopped.json["path"]).is_dir()
    ended = cluster.headrace("status", first, "--json").json
    assert (ended["state"], ended["ended_by"]) == ("FINISHED", "stop")
    assert "FINISHED (stopped)" in cluster.headrace("list").out
    assert cluster.headrace("cancel", "twins").code == 0, "one job of that name is left"
    gone = cluster.headrace("cancel", "twins")
    assert gone.code == 2 and "no running job is called 'twins'" in gone.err


def _require_documents(cluster: Cluster, job: str) -> None:
    """By its name or the beginning of its id, each command prints the documented fields."""
    wait_until(lambda: cluster.client.status(job).checkpoint is not None, "a checkpoint")

    newest = cluster.headrace("list", "--json").json["jobs"][0]
    status = cluster.headrace("status", "twins", "--json").json
    by_prefix = cluster.headrace("status", job[:6], "--json").json
    checkpoints = cluster.headrace("checkpoints", job, "--json")

    assert (newest["job_id"], newest["name"], newest["state"]) == (job, "twins", "RUNNING")
    assert (status["job_id"], by_prefix["job_id"]) == (job, job)
    assert {"job_id", "name", "state", "attempt", "parallelism", "nodes", "checkpoint", "failure"} <= set(status)
    assert {"epoch", "completed_at", "path", "bytes"} == set(status["checkpoint"])
    assert [node["node"] for node in status["nodes"]] == ["numbers", "sums", "out"]
    assert all(set(node) >= NODE_FIELDS for node in status["nodes"])
    assert status["failure"] is None
    assert checkpoints.code == 0, checkpoints.err
    # the next checkpoint may be in progress: it has no duration yet
    ended = [each for each in checkpoints.json["checkpoints"] if each["status"] != "in-progress"]
    assert ended and all(each["duration_ms"] >= 0 for each in ended)


def test_exit_codes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert cluster.headrace("status", "nobody").code == 2
    assert cluster.headrace("submit", "no-such-file.yaml").code == 2
    assert cluster.headrace("status", "any", "--coordinator", "http://127.0.0.1:1").code == 3
    other = Cluster(tmp_path_factory.mktemp("other"))
    nowhere = other.headrace("list")
    assert nowhere.code == 3 and "headrace cluster start" in nowhere.err
    bounded = cluster.folder / "bounded.yaml"
    bounded.write_text(ENDLESS.format(name="bounded").replace("rate: 200", "rows: 200"))
    done = cluster.headrace("submit", str(bounded), "--wait", "--json")
    assert (done.code, done.json["state"], done.json["failure"]) == (0, "FINISHED", None)
    assert cluster.client.status(done.json["job_id"]).ended_by == "input"
    assert "(stopped)" not in cluster.headrace("status", done.json["job_id"]).out


def test_a_poison_message_ends_the_job_and_is_named(cluster: Cluster, broker: EmbeddedBroker) -> None:
    """Also by a coordinator that was not there when it came."""
    topic = create_topic(broker, unique_topic("poison"), 2)
    produce(broker, topic, [b'{"n": 1}', b'{"n": 2}', b"no row"], partition=1)
    path = cluster.folder / "poisoned.yaml"
    path.write_text(POISONED.format(brokers=broker.bootstrap, topic=topic))

    done = cluster.headrace("submit", str(path), "--wait", "--json")

    assert (done.code, done.json["state"]) == (1, "FAILED")
    job, place = done.json["job_id"], f"{topic}[1] offset 2"
    assert place in done.err
    before = _told(cluster, job)
    assert place in str(before["failure"])
    kill(cluster.coordinator())
    cluster.start_again()
    assert _told(cluster, job) == before


def _told(cluster: Cluster, job: str) -> dict[str, object]:
    """What is known of a job that failed."""
    status = cluster.headrace("status", job, "--json").json
    (failure,) = cluster.client.exceptions(job)
    assert (failure.node, failure.attempt) == ("numbers", 1)
    assert failure.place is not None and failure.place in str(status["failure"])
    return {"state": status["state"], "failure": status["failure"], "exception": failure}
