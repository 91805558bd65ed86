"""A topic that is made anew under a job's name: the job that runs is told, its state is refused, an option accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster, kill
from support.kafka.broker import create_topic, delete_topic, produce, unique_topic
from support.processes.running import Finished, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2, of="files")]

PIPELINE = """\
name: {name}
checkpoint: {{interval: 300ms}}
restart: {{strategy: exponential-delay, initial: 100ms, max: 200ms}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}}}
    format: json
    schema: {{n: int64 not null}}
sinks:
  out: {{from: numbers, files: {{path: {out}, delivery: exactly-once}}, format: json}}
"""


class Numbers:
    """One pipeline from a topic that can be made anew to files. `rows`: what is written, in order."""

    def __init__(self, cluster: Cluster, broker: EmbeddedBroker, folder: Path) -> None:
        self.cluster, self.broker = cluster, broker
        self.topic = unique_topic("numbers")
        self.name = self.topic
        self._out = folder / "out"
        self._file = folder / "numbers.yaml"
        self._file.write_text(
            PIPELINE.format(name=self.name, brokers=broker.bootstrap, topic=self.topic, out=self._out)
        )

    def make(self, values: range) -> None:
        create_topic(self.broker, self.topic)
        produce(self.broker, self.topic, [json.dumps({"n": value}) for value in values])

    def make_anew(self, values: range) -> None:
        delete_topic(self.broker, self.topic)
        self.make(values)

    def submit(self, *options: str) -> Finished:
        return self.cluster.headrace("submit", str(self._file), *options)

    def upgrade(self, job: str, *options: str) -> Finished:
        return self.cluster.headrace("upgrade", job, str(self._file), *options)

    def rows(self) -> list[int]:
        lines = [line for part in self._out.glob("part-*") for line in part.read_text().splitlines()]
        return sorted(json.loads(line)["n"] for line in lines)

    def wait_rows(self, *expected: int) -> None:
        wait_until(lambda: self.rows() == sorted(expected), f"{len(expected)} rows are there")


def started(done: Finished) -> str:
    assert done.code == 0, done.err
    return done.out.strip().splitlines()[-1]


@pytest.fixture
def numbers(cluster: Cluster, broker: EmbeddedBroker, tmp_path: Path) -> Numbers:
    return Numbers(cluster, broker, tmp_path)


def test_a_job_that_runs_fails_and_goes_on_from_the_new_start_once_it_is_accepted(
    cluster: Cluster, numbers: Numbers
) -> None:
    numbers.make(range(5))
    job = started(numbers.submit())
    numbers.wait_rows(*range(5))
    numbers.make_anew(range(100, 108))
    failed = cluster.wait_state(job, "FAILED")
    assert failed.failure is not None
    assert "made anew" in failed.failure
    assert failed.checkpoint is not None
    path = failed.checkpoint.path

    refused = numbers.submit("--from-savepoint", path)
    assert refused.code == 2, refused.err
    assert f"--accept-new-topic {numbers.topic}" in refused.err
    job = started(numbers.submit("--from-savepoint", path, "--accept-new-topic", numbers.topic))
    numbers.wait_rows(*range(5), *range(100, 108))
    # the slots die: the identity of the new topic is in the job's state, and nothing comes twice
    kill(*cluster.wait_busy_slots(job))
    produce(numbers.broker, numbers.topic, ['{"n": 200}'])
    numbers.wait_rows(*range(5), *range(100, 108), 200)
    assert cluster.headrace("cancel", job).code == 0


@pytest.mark.full
@pytest.mark.parametrize("count", [9, 5, 2])
def test_an_upgrade_and_a_savepoint_are_refused_too(cluster: Cluster, numbers: Numbers, count: int) -> None:
    numbers.make(range(5))
    job = started(numbers.submit())
    numbers.wait_rows(*range(5))
    stopped = cluster.headrace("stop", job, "--savepoint", str(cluster.folder / f"saved-{numbers.name}"))
    assert stopped.code == 0, stopped.err
    path = stopped.out.strip().splitlines()[-1]
    numbers.make_anew(range(100, 100 + count))
    refused = numbers.submit("--from-savepoint", path)
    assert refused.code == 2, refused.err
    assert "made anew" in refused.err
    # accepting another topic accepts nothing
    assert numbers.submit("--from-savepoint", path, "--accept-new-topic", "other").code == 2
    job = started(numbers.submit("--from-savepoint", path, "--accept-new-topic", numbers.topic))
    numbers.wait_rows(*range(5), *range(100, 100 + count))
    # the option has no effect on a topic that is the same: an upgrade reads nothing again
    job = started(numbers.upgrade(job, "--accept-new-topic", numbers.topic))
    produce(numbers.broker, numbers.topic, ['{"n": 300}'])
    numbers.wait_rows(*range(5), *range(100, 100 + count), 300)
    assert cluster.headrace("cancel", job).code == 0
