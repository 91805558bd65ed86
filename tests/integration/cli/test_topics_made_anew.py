"""`headrace run` from state of a topic that was deleted and made anew: refused, until the new topic is accepted."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, delete_topic, produce, unique_topic
from support.processes.running import Finished, finish, headrace, start, wait_until

pytestmark = [pytest.mark.broker]

PIPELINE = """\
name: numbers
checkpoint: {{interval: 200ms}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}}}
    format: json
    schema: {{n: int64 not null}}
sinks:
  out: {{from: numbers, files: {{path: out, delivery: exactly-once}}, format: json}}
"""


def rows(folder: Path) -> list[int]:
    lines = [line for part in (folder / "out").glob("part-*") for line in part.read_text().splitlines()]
    return sorted(json.loads(line)["n"] for line in lines)


def read_to(folder: Path, expected: list[int], *options: str) -> Finished:
    """A run that has written these rows, and was ended by Ctrl-C."""
    process = start(["run", "p.yaml", *options], folder)
    wait_until(lambda: process.poll() is not None or rows(folder) == expected, f"{len(expected)} rows are written")
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 0, done.err
    assert rows(folder) == expected
    return done


def made(broker: EmbeddedBroker, topic: str, values: range) -> None:
    create_topic(broker, topic)
    produce(broker, topic, [json.dumps({"n": value}) for value in values])


def require_refused(folder: Path, topic: str, *origin: str) -> None:
    refused = headrace(["run", "p.yaml", *origin], folder)
    assert refused.code == 2, refused.err
    assert f"{topic}: it was deleted and made anew" in refused.err
    assert f"--accept-new-topic {topic}" in refused.err


def test_a_savepoint_and_a_resumed_run_are_refused_and_begin_the_topic_at_its_start_once_it_is_accepted(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = unique_topic("numbers")
    accepted = ("--accept-new-topic", topic)
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    made(broker, topic, range(5))
    kept = read_to(tmp_path, [*range(5)], "--savepoint", "kept")
    found = re.search(r"savepoint (\S+)", kept.err)
    assert found is not None, kept.err

    delete_topic(broker, topic)
    made(broker, topic, range(100, 108))
    require_refused(tmp_path, topic, "--from-savepoint", found[1])
    expected = [*range(5), *range(100, 108)]
    read_to(tmp_path, expected, "--from-savepoint", found[1], *accepted)

    delete_topic(broker, topic)
    made(broker, topic, range(200, 210))
    require_refused(tmp_path, topic, "--resume")
    expected += range(200, 210)
    read_to(tmp_path, expected, "--resume", *accepted)
    # from then on the topic is the run's own, and the option has no effect
    produce(broker, topic, ['{"n": 300}'])
    read_to(tmp_path, [*expected, 300], "--resume", *accepted)
