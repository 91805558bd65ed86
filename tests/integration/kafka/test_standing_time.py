"""Time that stands still while windows are open: a run says what it waits for, and a job's status too."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.coordinator.figures import standing_time
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob, Progress
from headrace.spec.reading.load import load_text
from headrace_connectors.memory import open_collected
from support.clusters.session import running_cluster
from support.kafka.broker import Broker, create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, start, wait_until

START_S = 1_714_550_400

QUIET = """
name: {name}
sources:
  s:
    kafka: {{brokers: "{brokers}", topic: {topic}}}
    format: json
    schema: {{k: string, at: timestamp(s)}}
    time: {{column: at{idle}}}
steps:
  w: {{from: s, key_by: [k], window: {{tumbling: 1m}}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: w, print: {{}}}}
"""
IDLE = ", idle_after: 500ms"


def quiet_topic(broker: Broker) -> str:
    """Two partitions, one of them without a row."""
    topic = unique_topic("standing")
    create_topic(broker, topic, 2)
    produce(broker, topic, [json.dumps({"k": "a", "at": START_S + n}) for n in range(200)], partition=0)
    return topic


def text_of(broker: Broker, topic: str, idle: str = "") -> str:
    return QUIET.format(name=topic, brokers=broker.bootstrap, topic=topic, idle=idle)


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        ("", "partition 1 of {topic} (source s), which never had a row"),
        (IDLE, "the next row of source s: all of its partitions are idle"),
    ],
)
def test_what_time_waits_for(broker: Broker, monkeypatch: pytest.MonkeyPatch, idle: str, expected: str) -> None:
    monkeypatch.setattr(standing_time, "STANDS_MS", 100)
    topic = quiet_topic(broker)
    text = text_of(broker, topic, idle).replace("print: {}", f"memory: {{name: {topic}}}")
    model = load_text(text, "p.yaml", environ={}).pipeline
    job = LocalJob(compile_pipeline(model).physical, JobOptions(watches_data=True))
    wanted, found = expected.format(topic=topic), set[tuple[str, str]]()

    def look(progress: Progress) -> None:
        found.update((each.node, each.on) for each in progress.waiting)
        # before partition 1 is idle, time waits for it
        if ("w", wanted) in found:
            job.stop()

    with open_collected(topic):
        assert job.run(look) is JobState.CANCELED
    assert ("w", wanted) in found


@pytest.mark.full
@pytest.mark.parametrize("options", [[], ["--parallelism", "2"], ["--threads"]], ids=["slot", "slots", "threads"])
def test_a_run_says_what_time_waits_for_until_it_moves(broker: Broker, tmp_path: Path, options: Sequence[str]) -> None:
    topic = quiet_topic(broker)
    (tmp_path / "p.yaml").write_text(text_of(broker, topic, IDLE))
    printed: list[str] = []
    line = "waiting: w for the next row of source s: all of its partitions are idle"
    with start(["run", "p.yaml", *options], tmp_path) as running:
        reader = threading.Thread(target=lambda: printed.extend(running.stderr or ()))
        reader.start()
        try:
            wait_until(lambda: any(line in each for each in printed), "a progress line with the reason")
            wait_until(lambda: any("w: event time stands still" in each for each in printed), "the warning")
            produce(broker, topic, [json.dumps({"k": "a", "at": START_S + 1_000})], partition=1)
            wait_until(lambda: line not in printed[-1], "a progress line without it")
            running.send_signal(signal.SIGINT)
            code = running.wait(WAIT_SECONDS)
        finally:
            if running.poll() is None:
                running.kill()
            reader.join()
    whole = "".join(printed)
    assert code == 0, whole
    assert whole.count("w: event time stands still since") == 1, whole


@pytest.mark.full
def test_the_status_of_a_job_says_what_time_waits_for(broker: Broker, tmp_path: Path) -> None:
    topic = quiet_topic(broker)
    (tmp_path / "p.yaml").write_text(text_of(broker, topic).replace("print: {}", "files: {path: out}, format: json"))
    with running_cluster(tmp_path) as cluster:
        job = cluster.headrace("submit", str(tmp_path / "p.yaml"), "--json").json["job_id"]
        wait_until(lambda: bool(cluster.client.status(job).waiting), "time stands still")
        (found,) = cluster.headrace("status", job, "--json").json["waiting"]
        text = cluster.headrace("status", job).out
        produce(broker, topic, [json.dumps({"k": "a", "at": START_S + 1_000})], partition=1)
        wait_until(lambda: not cluster.client.status(job).waiting, "time moves")
        cluster.headrace("cancel", job)
    on = f"partition 1 of {topic} (source s), which never had a row"
    assert {**found, "since": ""} == {"node": "w", "on": on, "since": ""}
    assert "waiting: w since " in text and f" for {on}" in text
