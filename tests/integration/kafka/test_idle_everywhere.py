"""Windows close when no partition of a topic has rows any more; what was emitted stays closed after a restore."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.kafka.broker import Broker, consume_all, create_topic, produce, unique_topic
from support.processes.running import finish, headrace, start

START_S = 1_714_550_400

IDLE = """
name: idle
sources:
  s:
    kafka: {{brokers: "{brokers}", topic: {topic}}}
    format: json
    schema: {{k: string, at: timestamp(s)}}
    time: {{column: at, idle_after: 500ms}}
steps:
  w: {{from: s, key_by: [k], window: {{tumbling: 1m}}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: w, print: {{}}}}
"""


@pytest.mark.parametrize("options", [["--parallelism", "2"], ["--threads"]], ids=["slots", "threads"])
def test_windows_close_when_no_partition_has_rows_any_more(
    broker: Broker, tmp_path: Path, options: Sequence[str]
) -> None:
    topic = unique_topic("quiet")
    create_topic(broker, topic, 3)
    produce(broker, topic, [json.dumps({"k": "a", "at": START_S + 22 + n}) for n in range(200)], partition=0)
    (tmp_path / "idle.yaml").write_text(IDLE.format(brokers=broker.bootstrap, topic=topic))
    process = start(["run", "idle.yaml", *options], tmp_path)
    assert process.stdout is not None
    counts = [json.loads(process.stdout.readline())["n"] for _ in range(3)]
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert (ended.code, counts, ended.out) == (0, [38, 60, 60], ""), ended.err


LATER = """
name: later
sources:
  s:
    kafka: {{brokers: "{brokers}", topic: {topic}, stop: latest}}
    format: json
    schema: {{at: timestamp(s)}}
    time: {{column: at, out_of_orderness: {disorder}}}
steps:
  w: {{from: s, window: {{tumbling: 5m}}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: w, kafka: {{brokers: "{brokers}", topic: {topic}-out, delivery: exactly-once}}, format: json}}
  late: {{from: w.late, kafka: {{brokers: "{brokers}", topic: {topic}-late, delivery: exactly-once}}, format: json}}
"""


def test_a_larger_disorder_opens_no_window_again(broker: Broker, tmp_path: Path) -> None:
    topic = unique_topic("later")
    for name in (topic, f"{topic}-out", f"{topic}-late"):
        create_topic(broker, name)

    def run(disorder: str, *options: str) -> None:
        text = LATER.format(brokers=broker.bootstrap, topic=topic, disorder=disorder)
        (tmp_path / "later.yaml").write_text(text)
        done = headrace(["run", "later.yaml", "--savepoint", "saved", "--json", *options], tmp_path)
        assert done.code == 0, done.err
        saved.append(done.json["savepoint"])

    saved: list[str] = []
    produce(broker, topic, [json.dumps({"at": START_S + at}) for at in (10, 70, 130, 190, 360)])
    run("0s")
    produce(broker, topic, [json.dumps({"at": START_S + at}) for at in (250, 480)])
    run("5m", "--from-savepoint", saved[0])
    written = [json.loads(record.value or b"") for record in consume_all(broker, f"{topic}-out")]
    late = [json.loads(record.value or b"") for record in consume_all(broker, f"{topic}-late")]
    assert [(row["window_start"], row["n"]) for row in written] == [("2024-05-01T08:00:00.000Z", 4)]
    assert [row["at"] for row in late] == ["2024-05-01T08:04:10.000Z"]
