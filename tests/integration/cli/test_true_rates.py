"""Rates of `headrace run` are those of the attempt that runs, in its summary and its metrics, of which it has all."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.coordinator.monitoring.definitions import CHECKPOINT_FAILED, METRICS, Subject
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import Running, finish, headrace, start, wait_until
from support.reserved_port import reserved_port

pytestmark = pytest.mark.broker

PIPELINE = """\
name: counted
checkpoint: {{interval: 200ms}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{n: int64 not null, at: timestamp}}
    time: {{column: at, out_of_orderness: 0s}}
steps:
  counted: {{from: numbers, window: {{tumbling: 10s}}, aggregate: {{rows: count(n)}}}}
sinks:
  out:
    from: counted
    kafka: {{brokers: "{brokers}", topic: {topic}-out, delivery: exactly-once, create_topic: {{partitions: 1}}}}
    format: json
"""


def scraped(port: int, *, host: str = "127.0.0.1") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": host})
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def values(port: int) -> dict[str, float]:
    """Name -> the sum of a metric's samples, for those that have one; none before the server answers."""
    try:
        text = scraped(port)
    except urllib.error.URLError:
        return {}
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def value(port: int, name: str) -> float:
    return values(port).get(name, 0.0)


def stopped(process: Running) -> dict[str, object]:
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.code == 0, ended.err
    return dict(ended.json)


def test_rows_of_an_earlier_run_are_in_no_rate(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("rates"), 1)
    produce(broker, topic, [json.dumps({"n": n, "at": 1_790_000_000_000 + 100 * n}) for n in range(500)])
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    with reserved_port() as port:
        monitored = ["run", "p.yaml", "--json", "--metrics-port", str(port)]
        first = start(monitored, tmp_path)
        wait_until(lambda: value(port, "headrace_node_rows_in_total") >= 500, "all rows are read")
        wait_until(lambda: value(port, "headrace_job_checkpoint_duration_seconds") > 0, "a checkpoint")
        named = {each.name for each in METRICS if each.subject is not Subject.CLUSTER} - {CHECKPOINT_FAILED.name}
        wait_until(lambda: named <= values(port).keys(), "every metric of a job has a value")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            scraped(port, host="evil.example")
        read_all = stopped(first)
        resumed = start([*monitored, "--resume"], tmp_path)
        wait_until(lambda: value(port, "headrace_job_running_seconds") > 0, "it runs again")
        read_nothing = stopped(resumed)

    assert read_all["rows_in"] == 500 and float(str(read_all["rows_in_per_s"])) > 0
    assert (read_nothing["rows_in"], read_nothing["rows_in_per_s"]) == (500, 0.0)


def test_a_port_that_is_taken_and_threads_are_refused(tmp_path: Path, broker: EmbeddedBroker) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic="any"))
    port = broker.bootstrap.rpartition(":")[2]

    taken = headrace(["run", "p.yaml", "--metrics-port", port], tmp_path)
    threads = headrace(["run", "p.yaml", "--threads", "--metrics-port", "9999"], tmp_path)

    assert (taken.code, threads.code) == (2, 2)
    assert f"--metrics-port {port}" in taken.err and "name another port" in taken.err
    assert "--threads serves no metrics" in threads.err
