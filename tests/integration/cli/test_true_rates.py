"""Rates of `headrace run` are those of the attempt that runs, in its summary and in its metrics."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headrace.coordinator.monitoring.definitions import METRICS, Subject
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
    schema: {{n: int64 not null}}
sinks:
  out:
    from: numbers
    files: {{path: out}}
    format: json
"""


def scraped(port: int, *, host: str = "127.0.0.1") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": host})
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def value(port: int, name: str) -> float:
    """The sum of a metric's values; 0 before the server answers or has one."""
    try:
        lines = scraped(port).splitlines()
    except urllib.error.URLError:
        return 0.0
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))


def stopped(process: Running) -> dict[str, object]:
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.code == 0, ended.err
    return dict(ended.json)


def test_rows_of_an_earlier_run_are_in_no_rate(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("rates"), 1)
    produce(broker, topic, [json.dumps({"n": n}) for n in range(500)])
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    with reserved_port() as port:
        monitored = ["run", "p.yaml", "--json", "--metrics-port", str(port)]
        first = start(monitored, tmp_path)
        wait_until(lambda: value(port, "headrace_node_rows_in_total") >= 500, "all rows are read")
        wait_until(lambda: value(port, "headrace_job_checkpoint_duration_seconds") > 0, "a checkpoint")
        text = scraped(port)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            scraped(port, host="evil.example")
        read_all = stopped(first)
        resumed = start([*monitored, "--resume"], tmp_path)
        wait_until(lambda: value(port, "headrace_job_running_seconds") > 0, "it runs again")
        read_nothing = stopped(resumed)

    assert [each.name for each in METRICS if each.subject is not Subject.CLUSTER and each.name not in text] == []
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
